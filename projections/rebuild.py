"""Rebuilding runs from the log alone, and checking them against the inputs that they cite.

Nothing here trusts a cache, a view or a snapshot: what is returned was folded from what the log gave back.
"""

from collections.abc import AsyncIterator

from blackboard.board import Board, floor_of
from blackboard.log import LogDamaged, Message
from projections.audit import Audited, Auditor, Cited, Ledger, Recorded, Violation, causes, cited, recorded, take
from projections.history import Each, Folded, alone, kept, unwritten


class NoSuchVersion(LookupError):
    """The run has fewer events than the version that was asked for."""

    exit_code = 1


async def rebuild(board: Board, run: str, version: int | None = None, each: Each | None = None) -> Folded:
    """The run at `version` (None: as it is now), folded from its fact messages; without events, version 0. `each` may
    raise BrokenHistory about an event.

    Raises Violation at the first event that is wrong, NoSuchVersion, LogError.
    """
    folded = alone(unwritten(board.log.id, run))
    async for message in _facts(board, run):
        if version is None or folded.state.version < version:
            folded = take(folded, message, version, each)
    folded = kept(folded)
    if version is None or folded.state.version < version:
        await _require_last(board, folded)
    if version is not None and folded.state.version < version:
        raise NoSuchVersion(f"run {run} has {folded.state.version} events; there is no version {version}")
    return folded


async def history(board: Board, run: str) -> tuple[Folded, list[Recorded]]:
    """The run as it is now, and its events. Raises Violation, LogError."""
    folded, events = alone(unwritten(board.log.id, run)), list[Recorded]()
    async for message in _facts(board, run):
        folded = take(folded, message)
        events += recorded(message, board.log.id, run)
    folded = kept(folded)
    await _require_last(board, folded)
    return folded, events


async def rebuild_all(board: Board) -> AsyncIterator[Folded]:
    """Every run that has events, as of the head at the call, each as soon as its last message was read: so in memory
    are only runs of which more is to come. `_board` is among them. Raises Violation at the first event that is wrong,
    or does not keep the budget of its run, LogDamaged where the log keeps back a message that it named as the last of
    its run, LogError."""
    last = await _LastMessages.of(board)
    going: dict[str, tuple[Folded, Ledger]] = {}
    async for messages in board.log.scan([board.subjects.every("fact")], upto=last.head):
        for message in messages:
            run = _run_of_fact(board, message)
            if run is None:
                continue
            folded, ledger = going.pop(run) if run in going else (unwritten(board.log.id, run), Ledger())
            folded = take(folded, message, each=ledger.see)
            if last.reached(run, message.seq):
                yield folded
            else:
                going[run] = (folded, ledger)
    last.require_all()
    for folded, _ in going.values():
        await _require_last(board, folded)
        yield folded


async def check(board: Board, run: str) -> Audited | Violation:
    """The audit of one run: its facts and its inputs in one read. Raises LogError."""
    auditor, inputs = Auditor(board.log.id, run, board.subjects), dict[int, Cited]()
    fact = board.subjects.fact(run)
    try:
        async for messages in board.log.scan(board.subjects.of_run(run)):
            for message in messages:
                if message.subject != fact:
                    inputs[message.seq] = cited(message)
                    continue
                await fetch_cited(board, message, inputs)
                auditor.add(message, inputs.get)
        await _require_last(board, auditor.folded)
    except Violation as violation:
        return auditor.passed or violation
    return auditor.result()


async def check_all(board: Board) -> AsyncIterator[Audited | Violation]:
    """The audit of every run in one read of the whole log, each as soon as its last message was read; after the first
    violation nothing more. Raises LogDamaged at the first sequence that the log does not give back, LogError.

    Inputs are remembered until a `floor` says that they are decided; one that is cited later is asked for.
    """
    last = await _LastMessages.of(board)
    going: dict[str, Auditor] = {}
    inputs: dict[int, Cited] = {}
    async for messages in board.log.scan(upto=last.head):
        for message in messages:
            run = _run_of_fact(board, message)
            if run is None:
                inputs[message.seq] = cited(message)
                continue
            auditor = going.setdefault(run, Auditor(board.log.id, run, board.subjects))
            try:
                await fetch_cited(board, message, inputs)
                auditor.add(message, inputs.get)
            except Violation as violation:
                yield auditor.passed or violation
                return
            if last.reached(run, message.seq):
                yield going.pop(run).result()
        inputs = _above(floor_of(messages[-1]), inputs)
    last.require_all()
    for auditor in going.values():
        yield auditor.result()


async def _facts(board: Board, run: str) -> AsyncIterator[Message]:
    async for messages in board.log.scan([board.subjects.fact(run)]):
        for message in messages:
            yield message


async def _require_last(board: Board, folded: Folded) -> None:
    """Raise Violation where the log keeps back the last fact message of a run that was read to its end."""
    run = folded.state.run
    try:
        await board.log.last(board.subjects.fact(run))
    except LogDamaged as damaged:
        problem = "lost: the log keeps it back, at that place or later"
        raise Violation(run, folded.state.version + 1, problem, folded.seq + 1) from damaged


async def fetch_cited(board: Board, message: Message, inputs: dict[int, Cited]) -> None:
    """Ask for what a fact message cites and the read did not bring: of `_board` all, else something is wrong."""
    address = board.subjects.address(message.subject)
    for seq in causes(message, board.log.id, address.run if address else ""):
        if seq not in inputs and (there := await board.log.get(seq)):
            inputs[seq] = cited(there)


def _run_of_fact(board: Board, message: Message) -> str | None:
    """The run of a fact message; None for any other message."""
    address = board.subjects.address(message.subject)
    return address.run if address and address.family == "fact" else None


def _above(floor: int, inputs: dict[int, Cited]) -> dict[int, Cited]:
    return {seq: there for seq, there in inputs.items() if seq > floor} if floor else inputs


class _LastMessages:
    """Where the last fact message of each run lies, as of `head`. Of a run that goes on meanwhile it is not known."""

    def __init__(self, head: int, last: dict[str, int]) -> None:
        self.head, self._last = head, last

    @classmethod
    async def of(cls, board: Board) -> "_LastMessages":
        head = await board.log.head()  # first, so that a last message at or below it is the last one up to it
        last = {
            run: message.seq
            async for message in board.log.last_per_subject(board.subjects.every("fact"))
            if (run := _run_of_fact(board, message))
        }
        return cls(head, {run: seq for run, seq in last.items() if seq <= head})

    def reached(self, run: str, seq: int) -> bool:
        """Whether the message at `seq` is the last of `run`; said once."""
        if self._last.get(run) != seq:
            return False
        del self._last[run]
        return True

    def require_all(self) -> None:
        """Raises LogDamaged for a run whose last message did not come."""
        for run, seq in self._last.items():
            raise LogDamaged(seq, f"the last message of run {run} is not given back")
