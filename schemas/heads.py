"""Heads: what a notary signs of a log: how far it goes, and a digest of every message up to there.

Pure. A head is one line of JSON, `{"head": {...}, "key": ..., "signature": ...}`; what is signed (Ed25519) are the
bytes `blackboard head`, a line feed, and the stored bytes of `head`. Heads of one log are numbered, name the digest of
the line before them, and cover its messages without a gap. Source: docs/auditing.md, section Heads.
"""

import base64
import hashlib
import struct
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from schemas.codec import canonical, sha256
from schemas.events import Digest

HEAD_MESSAGES = 1_024
"""Messages that one head covers at most, so that it fits into a message of 1 MB whatever lies on the log."""
LEAF_BYTES = 16
"""Of the digest of each message, so many bytes stand in the head: they tell which message was changed."""
DOMAIN = b"blackboard head\n"
"""Before what is signed, so that the signature is good for nothing else."""

Whole = Annotated[int, Meta(ge=0)]


class BadHead(ValueError):
    """A line that is no head, or none of this notary."""


class Facts(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A fact message: its sequence, the numbers of its first and its last event, and the chain `h` of the run after
    it."""

    seq: int
    first: int
    last: int
    h: Digest


class Head(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The messages of `log` above sequence `after` up to `seq`. `digest` is the chain over all messages from the first
    one on. Of the messages covered here, in base64: `leaves`, LEAF_BYTES of the digest of each, and `places`, two bytes
    for each, little-endian: which of `subjects` it lies on. `facts` are those among them that take a run further.
    `prev`: SHA-256 of the line before this one, empty for the first. `at_ms`: the notary's clock."""

    v: Literal[1] = 1
    log: str
    board: str
    number: Annotated[int, Meta(ge=1)]
    prev: str
    after: Whole
    seq: Whole
    digest: Digest
    leaves: str
    subjects: tuple[str, ...]
    places: str
    facts: tuple[Facts, ...]
    at_ms: int

    def leaf_bytes(self) -> bytes:
        """LEAF_BYTES for each message covered. Raises BadHead."""
        return self._bytes(self.leaves, LEAF_BYTES)

    def subject_numbers(self) -> tuple[int, ...]:
        """For each message covered the number of its subject in `subjects`, from 0. Raises BadHead."""
        numbers = struct.unpack(f"<{self.seq - self.after}H", self._bytes(self.places, 2))
        if max(numbers) >= len(self.subjects):
            raise BadHead("it speaks of a subject that it does not name")
        return numbers

    def _bytes(self, text: str, each: int) -> bytes:
        try:
            found = base64.b64decode(text, validate=True)
        except ValueError:
            raise BadHead("a field of it is no base64") from None
        if len(found) != each * (self.seq - self.after):
            raise BadHead(f"it holds {len(found)} bytes for sequences {self.after + 1} to {self.seq}")
        return found


class Signed(Struct, frozen=True):
    """A head as a witness keeps it. `line` is all of it, without the line feed."""

    head: Head
    key: str
    line: bytes

    @property
    def sha256(self) -> str:
        return sha256(self.line)


class _Line(Struct, frozen=True, forbid_unknown_fields=True):
    head: msgspec.Raw
    key: str
    signature: str


_line = msgspec.json.Decoder(_Line)
_head = msgspec.json.Decoder(Head)


def log_start(log: str) -> bytes:
    """The chain over a log without messages: 32 bytes."""
    return hashlib.sha256(f"{log}\n".encode()).digest()


def log_link(link: bytes, leaf: bytes) -> bytes:
    """The chain after one more message, of which `leaf` is the digest: 32 bytes each."""
    return hashlib.sha256(link + leaf).digest()


def leaf_of(seq: int, subject: str, time_ms: int, headers: dict[str, str] | None, data: bytes) -> bytes:
    """The digest of one stored message, with its place, its time and its headers but for those that speak to the
    server: 32 bytes."""
    return hashlib.sha256(canonical([seq, subject, time_ms, headers or {}, sha256(data)])).digest()


def signable(head: bytes) -> bytes:
    """What the signature of a head is over, from its stored bytes."""
    return DOMAIN + head


def write_line(head: bytes, key: str, signature: bytes) -> bytes:
    """The line around a head whose bytes are kept; without a line feed, of which JSON has none."""
    return msgspec.json.encode(_Line(msgspec.Raw(head), key, signature.hex()))


def read_line(line: bytes) -> tuple[Signed, bytes, bytes]:
    """A line as (what it says, the bytes that are signed, the signature), which is not checked here. Raises BadHead."""
    try:
        outer = _line.decode(line)
        stored = bytes(outer.head)
        head, signature = _head.decode(stored), bytes.fromhex(outer.signature)
    except (msgspec.MsgspecError, ValueError) as error:
        raise BadHead(f"it is no head: {error}") from None
    if not 0 < head.seq - head.after <= HEAD_MESSAGES:
        raise BadHead(f"it cannot cover sequences {head.after + 1} to {head.seq}")
    return Signed(head, outer.key, bytes(line)), signable(stored), signature
