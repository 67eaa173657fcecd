"""What somebody can do to a recorded board who has the disk of its server, or its administrator's identity, but not the
notary's key; and what `verify` must say of it.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from projections.history import fold, state_digest, unwritten
from schemas.codec import decode_event, decode_facts, encode_facts, sha256
from tests.tamper import blocks
from tests.tamper.blocks import Stored
from tests.tamper.recorded import Place, Recorded

Edit = Callable[[list[Stored]], Sequence[Stored]]


class Attack(Struct, frozen=True):
    """`do` edits the folder of the stopped server's stream. Each of `changed` must be named; of the first, `place` says
    as what."""

    kind: str
    do: Callable[[Path], None]
    changed: tuple[int, ...]
    places: tuple[Place, ...]

    @property
    def name(self) -> str:
        return f"{self.kind} at {self.changed[0]}"


def on_disk(recorded: Recorded) -> Iterator[Attack]:
    """Every attack on the files of the stopped server."""
    everywhere = [message.seq for message in recorded.messages]
    for seq in everywhere:
        yield bit_flipped(recorded, seq)
        yield bit_flipped(recorded, seq, mended=True)
        yield dropped(recorded, seq, seq)
        yield cut(recorded, seq)
        yield author_changed(recorded, seq)
        yield time_changed(recorded, seq)
    for seq in everywhere[:-4]:
        yield dropped(recorded, seq, seq + 3)
    for seq in recorded.sequences(".fact."):
        yield floor_changed(recorded, seq)
    for first, second in _pairs(recorded):
        yield swapped(recorded, first, second)
        yield spliced(recorded, first, second)
    for seq in recorded.sequences(".obs.", b'"claims":[{'):
        yield rewritten(recorded, seq)


def _one(kind: str, recorded: Recorded, seqs: Sequence[int], edit: Edit, *others: Place) -> Attack:
    return Attack(kind, lambda folder: blocks.change(folder, edit), tuple(seqs), (recorded.places[seqs[0]], *others))


def _put(records: Sequence[Stored], *news: Stored) -> list[Stored]:
    by_seq = {one.seq: one for one in news}
    return [by_seq.get(one.seq, one) for one in records]


def bit_flipped(recorded: Recorded, seq: int, mended: bool = False) -> Attack:
    """In the middle of the data; `mended`: the checksum is made to fit."""
    data = recorded.message(seq).data
    at = len(data) // 2
    flipped = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]

    def flip(folder: Path) -> None:
        block = folder / "msgs" / "1.blk"
        record = next(raw for one, raw in blocks.raw(block) if one.seq == seq)
        stored = block.read_bytes()
        assert stored.count(record) == record.count(data) == 1
        block.write_bytes(stored.replace(record, record.replace(data, flipped)))

    if not mended:
        return Attack("a bit flipped", flip, (seq,), (recorded.places[seq],))
    return data_changed(recorded, seq, flipped)


def data_changed(recorded: Recorded, seq: int, data: bytes) -> Attack:
    edit: Edit = lambda records: _put(records, replace(records[seq - 1], data=data))  # noqa: E731
    return _one("a bit flipped, checksum mended", recorded, [seq], edit)


def dropped(recorded: Recorded, first: int, last: int) -> Attack:
    edit: Edit = lambda records: [one for one in records if not first <= one.seq <= last]  # noqa: E731
    kind = "the last messages dropped" if last == len(recorded.messages) else "messages dropped from the middle"
    return _one(kind, recorded, range(first, last + 1), edit)


def cut(recorded: Recorded, first: int) -> Attack:
    edit: Edit = lambda records: records[: first - 1]  # noqa: E731
    return _one("the tail cut off", recorded, range(first, len(recorded.messages) + 1), edit)


def author_changed(recorded: Recorded, seq: int) -> Attack:
    """Of a fact or wake, which name no author: the run."""
    parts = recorded.message(seq).subject.split(".")
    parts[3] = "mallory"
    subject = ".".join(parts)
    edit: Edit = lambda records: _put(records, replace(records[seq - 1], subject=subject))  # noqa: E731
    return _one("the author changed", recorded, [seq], edit)


def time_changed(recorded: Recorded, seq: int) -> Attack:
    edit: Edit = lambda records: _put(  # noqa: E731
        records, replace(records[seq - 1], time_ns=records[seq - 1].time_ns + 1_000_000)
    )
    return _one("the time changed", recorded, [seq], edit)


def floor_changed(recorded: Recorded, seq: int) -> Attack:
    """A supervisor that takes over would begin there, and pass over what lies below."""

    def edit(records: list[Stored]) -> list[Stored]:
        old = records[seq - 1]
        before, _, after = old.headers.partition(b"floor: ")
        number, _, rest = after.partition(b"\r\n")
        raised = before + b"floor: " + str(int(number) + 1).encode() + b"\r\n" + rest
        assert raised != old.headers
        return _put(records, replace(old, headers=raised))

    return _one("the floor raised", recorded, [seq], edit)


def _pairs(recorded: Recorded) -> Iterator[tuple[int, int]]:
    """Neighbours, and pairs of a family far from each other."""
    for first in range(1, len(recorded.messages)):
        yield first, first + 1
    drawn = random.Random(1)
    for family in (".fact.", ".obs.", ".contract.", ".goal.", ".signal."):
        seqs = recorded.sequences(family)
        for _ in range(8):
            first, second = sorted(drawn.sample(seqs, 2))
            if recorded.message(first).data != recorded.message(second).data:
                yield first, second


def swapped(recorded: Recorded, first: int, second: int) -> Attack:
    """All but sequence and time."""

    def edit(records: list[Stored]) -> list[Stored]:
        one, other = records[first - 1], records[second - 1]
        return _put(
            records,
            replace(one, subject=other.subject, headers=other.headers, data=other.data),
            replace(other, subject=one.subject, headers=one.headers, data=one.data),
        )

    return _one("two messages swapped", recorded, [first, second], edit, recorded.places[second])


def spliced(recorded: Recorded, first: int, second: int) -> Attack:
    """The first in the place of the second, under the subject of the second."""
    edit: Edit = lambda records: _put(  # noqa: E731
        records, replace(records[second - 1], headers=records[first - 1].headers, data=records[first - 1].data)
    )
    return _one("spliced from elsewhere", recorded, [second], edit)


def rewritten(recorded: Recorded, seq: int) -> Attack:
    """What was claimed at `seq`, and all that the run made of it, with digests, chain and state that fit."""
    run, data = recorded.places[seq].run, _lied(recorded.message(seq).data)
    digests = sha256(recorded.message(seq).data).encode(), sha256(data).encode()
    news, folded = {seq: (data, b"")}, unwritten(recorded.log_id, run)
    for at in recorded.sequences(f".fact.{run}"):
        old = recorded.message(at)
        facts = decode_facts(old.data)
        events = [_event(bytes(stored), seq, *digests) for stored in facts.events]
        message = encode_facts(facts.log, run, facts.first, folded.h, events)
        folded = fold(folded, decode_facts(message), at)
        if message != old.data:
            news[at] = (message, state_digest(folded.state).encode())

    def edit(records: list[Stored]) -> list[Stored]:
        return _put(records, *(_rewritten(records[at - 1], *new) for at, new in news.items()))

    return _one("rewritten from there on", recorded, sorted(news), edit)


def _event(stored: bytes, seq: int, old_digest: bytes, digest: bytes) -> bytes:
    """An event as it is when the input at `seq` is the other one."""
    if decode_event(stored).cause.seq != seq:
        return stored
    return _lied(stored).replace(old_digest, digest)


def _rewritten(record: Stored, data: bytes, digest: bytes) -> Stored:
    before, state, after = record.headers.partition(b"state: ")
    return replace(record, data=data, headers=before + state + digest + after[64:] if state else record.headers)


def _lied(data: bytes) -> bytes:
    return data.replace(b'"confidence":0.5', b'"confidence":0.6')
