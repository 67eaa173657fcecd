"""What a notary attests: heads of a log, made from its messages, signed with Ed25519, and how one follows another.

Pure. The notary makes a head with the same `Segment` with which whoever verifies the log looks at it again.
Source: docs/auditing.md, section Heads.
"""

import base64
import struct
from collections.abc import Iterator

from msgspec import Struct
from nacl.exceptions import BadSignatureError
from nacl.signing import SigningKey, VerifyKey

from blackboard.log import Message
from schemas.codec import FactMessage, NotAFactMessage, chain_link, decode_facts, encode
from schemas.heads import (
    LEAF_BYTES,
    BadHead,
    Facts,
    Head,
    Signed,
    leaf_of,
    log_link,
    log_start,
    read_line,
    signable,
    write_line,
)
from schemas.subjects import Subjects


def leaf(message: Message) -> bytes:
    """The digest of a message, 32 bytes."""
    return leaf_of(message.seq, message.subject, message.time_ms, message.headers, message.data)


class Segment:
    """Messages that follow each other on the log, above `after`; `link` is the chain over all of the log up to there,
    and goes on with each message. `seq` is where the last one lies."""

    def __init__(self, subjects: Subjects, log: str, after: int = 0, link: bytes = b"") -> None:
        self.after = self.seq = after
        self.link = link or log_start(log)
        self._leaves, self._places = bytearray(), list[int]()
        self._numbers: dict[str, int] = {}
        self._facts: list[Facts] = []
        self._subjects, self._log = subjects, log

    def add(self, message: Message) -> bytes:
        """The digest of the message, 32 bytes."""
        whole = leaf(message)
        self.seq, self.link = message.seq, log_link(self.link, whole)
        self._leaves += whole[:LEAF_BYTES]
        self._places.append(self._numbers.setdefault(message.subject, len(self._numbers)))
        if facts := facts_of(self._subjects, self._log, message):
            self._facts.append(facts)
        return whole

    def head(self, number: int, prev: str, at_ms: int) -> Head:
        return Head(
            log=self._log,
            board=self._subjects.board,
            number=number,
            prev=prev,
            after=self.after,
            seq=self.seq,
            digest=self.link.hex(),
            leaves=base64.b64encode(self._leaves).decode(),
            subjects=tuple(self._numbers),
            places=base64.b64encode(struct.pack(f"<{len(self._places)}H", *self._places)).decode(),
            facts=tuple(self._facts),
            at_ms=at_ms,
        )


def facts_of(subjects: Subjects, log: str, message: Message) -> Facts | None:
    """How far a message takes its run, as it says itself; None where it is no fact message of the run."""
    address = subjects.address(message.subject)
    if address is None or address.family != "fact":
        return None
    try:
        facts = decode_facts(message.data)
        link = _chained(facts)
    except (NotAFactMessage, ValueError):
        return None
    if (facts.log, facts.run) != (log, address.run):
        return None
    return Facts(message.seq, facts.first, facts.first + len(facts.events) - 1, link.hex())


def _chained(facts: FactMessage) -> bytes:
    """The chain after the last event of a message, which says itself how it was before. Raises ValueError."""
    link = bytes.fromhex(facts.prev)
    for stored in facts.events:
        link = chain_link(link, memoryview(stored))
    return link


def sign(head: Head, key: SigningKey) -> Signed:
    stored = encode(head)
    signature = key.sign(signable(stored)).signature
    line = write_line(stored, public_of(key), signature)
    return Signed(head, public_of(key), line)


def public_of(key: SigningKey) -> str:
    """The public key in hex: what an auditor keeps."""
    return bytes(key.verify_key).hex()


def read_signed(line: bytes, public: str) -> Signed:
    """A head of the notary whose public key this is. Raises BadHead."""
    signed, stored, signature = read_line(line)
    if signed.key != public:
        raise BadHead(f"it is signed with the key {signed.key[:80]}, not with {public}")
    try:
        VerifyKey(bytes.fromhex(public)).verify(stored, signature)
    except (BadSignatureError, ValueError):
        raise BadHead("its signature does not fit: it was changed, or another key signed it") from None
    signed.head.leaf_bytes()
    signed.head.subject_numbers()
    return signed


class Succession(Struct):
    """Reads the heads of one log in their order. `last` is the newest of them; `first_leaf` tells the first message of
    the log."""

    public: str
    last: Signed | None = None
    first_leaf: bytes = b""

    @property
    def number(self) -> int:
        return self.last.head.number if self.last else 0

    @property
    def seq(self) -> int:
        """Up to where the log is signed."""
        return self.last.head.seq if self.last else 0

    def read(self, line: bytes) -> Signed:
        """A line that may follow. Raises BadHead for one that does not."""
        signed = read_signed(line, self.public)
        for problem in _breaks(self.last, signed.head):
            raise BadHead(problem)
        return signed

    def follow(self, signed: Signed) -> None:
        """Go on to a head that was read, or made to follow."""
        self.first_leaf = self.first_leaf or signed.head.leaf_bytes()[:LEAF_BYTES]
        self.last = signed


def _breaks(last: Signed | None, head: Head) -> Iterator[str]:
    """Why a head does not follow the one before."""
    number, seq, prev = (last.head.number, last.head.seq, last.sha256) if last else (0, 0, "")
    if head.number != number + 1:
        yield f"it has the number {head.number} where {number + 1} is to come"
    if head.prev != prev:
        yield "it follows another head than the one before it"
    if head.after != seq:
        yield f"it begins after sequence {head.after}, and the one before it ends at {seq}"
    if last and (head.log, head.board) != (last.head.log, last.head.board):
        yield f"it is about log {head.log} of board {head.board!r}, and the one before it about {last.head.log}"
