"""Synthetic histories of one run: as many events as wanted, over as many keys as wanted, as a supervisor would store
them. They pass `blackboard rebuild --check`, with every input that they cite.

Of an attempt: it is given out; every third one is reported as started; it fails, or it ends and its fact is committed.
A message holds the events of one to four inputs.
"""

from collections import deque
from collections.abc import Iterator

from blackboard.log import Append
from schemas import events as e
from schemas.codec import chain_next, chain_start, encode, encode_facts, sha256
from schemas.goals import Goal
from schemas.inputs import Ended, Observation, Started
from schemas.steps import PlanStep, Voice
from schemas.subjects import Subjects
from schemas.usage import Usage

SPECIALIST, TEAM = "adder", "synthetic"
PARALLEL = 32
OPENED_MS = 1_700_000_000_000


class _Author:
    """Writes inputs and, after every few of them, the fact message with what they brought about."""

    def __init__(self, subjects: Subjects, log: str, run: str, first_seq: int) -> None:
        self.subjects, self.log, self.run = subjects, log, run
        self.appends: list[Append] = []
        self.version = 0
        self._first_seq, self._h, self._stored = first_seq, chain_start(log, run), list[bytes]()
        self._inputs = 0

    def cause(self, subject: str, data: bytes) -> None:
        """The input that the next events come from."""
        self._cause = e.Cause(self._first_seq + len(self.appends), sha256(data))
        self.appends.append(Append(subject, data))
        self._inputs += 1

    def observe(self, observation: Observation) -> None:
        self.cause(self.subjects.observation(SPECIALIST, self.run), encode(observation))

    def emit(self, kind: type[e.Event], **fields: object) -> None:
        self.version += 1
        self._stored.append(encode(kind(at=OPENED_MS + self.version, cause=self._cause, **fields)))

    def flush(self, inputs: int = 1) -> None:
        """Store the events, once at least so many inputs brought some about."""
        if self._inputs < inputs or not self._stored:
            return
        first = self.version - len(self._stored) + 1
        data = encode_facts(self.log, self.run, first, self._h, self._stored)
        self.appends.append(Append(self.subjects.fact(self.run), data))
        for stored in self._stored:
            self._h = chain_next(self._h, stored)
        self._stored, self._inputs = [], 0


def history(subjects: Subjects, log: str, run: str, events: int, keys: int, first_seq: int) -> list[Append]:
    """What to append from `first_seq` on, inputs among it, so that the run has exactly `events` events."""
    author = _Author(subjects, log, run, first_seq)
    _open(author, keys)
    waiting = deque(f"part-{index}" for index in range(keys))
    going: deque[tuple[str, int]] = deque()
    number = 0
    while waiting or going:
        while waiting and len(going) < PARALLEL:
            going.append((waiting.popleft(), 1))
            _dispatch(author, *going[-1])
        author.flush(inputs=1 + number % 4)
        task, attempt = going.popleft()
        number += 1
        left = events - author.version - _needed(len(waiting), 1 + len(going))
        if number % 3 == 0 and left > 0:
            author.observe(Started(task=task, attempt=attempt, execution=_execution(number)))
            author.emit(e.TaskStarted, task=task, attempt=attempt, execution=_execution(number))
            left -= 1
        if left >= 2:
            _fail(author, task, attempt, number)
            going.append((task, attempt + 1))
            _dispatch(author, *going[-1])
        else:
            _end(author, task, attempt, number)
    while author.version < events - 1:
        author.observe(Started(task="part-0", attempt=1, execution=_execution(number)))
        author.emit(e.InputLate, author=SPECIALIST, reason="attempt 1 of part-0 has ended, or was never made")
    author.emit(e.RunEnded, end="DONE", result={"total": keys})
    author.flush()
    return author.appends


def _needed(waiting: int, going: int) -> int:
    """Events that it takes to end what is left without another failure."""
    return 3 * waiting + 2 * going + 1


def _open(author: _Author, keys: int) -> None:
    goal = Goal(team=TEAM, input={"keys": keys})
    author.cause(author.subjects.goal("bench", author.run), goal.model_dump_json(exclude_none=True).encode())
    author.emit(e.RunOpened, rules=1, publisher="bench", team=TEAM, playbook=2, input=goal.input)
    step = PlanStep(id="part", capability="sum", for_each="input.numbers", tasks=2_000, fact="part.{index}")
    author.emit(e.PlanCommitted, steps=(step,), returns={"total": "facts.total"}, result={}, parallel=PARALLEL)
    author.emit(e.StepExpanded, step="part", items=keys, per_task=1, voices=(Voice(SPECIALIST, 1),))


def _dispatch(author: _Author, task: str, attempt: int) -> None:
    author.emit(
        e.TaskDispatched,
        task=task,
        attempt=attempt,
        specialist=SPECIALIST,
        contract=1,
        read_version=author.version,
        wait_ms=60_000,
        work_ms=30_000,
    )


def _fail(author: _Author, task: str, attempt: int, number: int) -> None:
    message = "ConnectionError: the source does not answer"
    author.observe(
        Ended(
            task=task,
            attempt=attempt,
            execution=_execution(number),
            usage=Usage(tool_calls=1),
            code="TOOL_DOWN",
            message=message,
        )
    )
    author.emit(
        e.AttemptFailed, task=task, attempt=attempt, code="TOOL_DOWN", message=message, usage=Usage(tool_calls=1)
    )


def _end(author: _Author, task: str, attempt: int, number: int) -> None:
    key, execution, usage = task.replace("-", "."), _execution(number), Usage(100, 20, 1)
    value = {"expression": "MIT OR Apache-2.0", "source": "classifiers", "file": f"METADATA-{number}"}
    claims = (e.Claim(key, value, 0.9),)
    author.observe(Ended(task=task, attempt=attempt, execution=execution, usage=usage, claims=claims))
    author.emit(
        e.TaskEnded,
        task=task,
        attempt=attempt,
        specialist=SPECIALIST,
        execution=execution,
        claims=claims,
        size=len(encode(claims)),
        usage=usage,
    )
    author.emit(e.FactCommitted, step="part", key=key, value=value, task=task, by=SPECIALIST, policy="only")


def _execution(number: int) -> str:
    return f"{number:016x}"


def parts(appends: list[Append], size: int = 1_000) -> Iterator[list[Append]]:
    """What goes in one call of `Log.append`: so many messages as one atomic batch takes."""
    return (appends[start : start + size] for start in range(0, len(appends), size))
