"""Random worlds for the books: playbooks of every shape, specialists that overspend, fail, ask, hand on and fall
silent, ends that come late, twice, again and from strangers.

All is chosen from a tape of bytes, so that Hypothesis has one thing to draw and to make smaller.
"""

from collections.abc import Sequence
from typing import Any, TypeVar

from projections.canonical import State
from schemas.subjects import BOARD_RUN
from schemas.tasks import Item, decode_task
from schemas.usage import Limits
from supervisor import effects
from tests.guardrails.books import DIMENSIONS, Books
from tests.supervisor.scenario import Due, Said, cancel, ended, goal, offer, started, step, teach

T = TypeVar("T")
SPECIALISTS = ("ann-bot", "bob-bot", "cat-bot", "dan-bot")
CAPABILITIES = ("read", "write")
CODES = ("TOOL_DOWN", "TOOL_DOWN", "INTERNAL", "TIMEOUT", "LOW_CONFIDENCE", "BUDGET_EXCEEDED", "INVALID_INPUT")
FEW = (None, None, None, None, 50, 20, 5, 5, 5, 1, 1, 0)
MANY = (None, None, None, None, 1_000, 1_000, 1_000, 200, 200, 200, 60, 60, 20, 0)
AFTERWARDS = 8
"""Messages that come after all runs have ended."""
PATIENCE = 60
"""Timers that may come due once nothing else happens any more."""


class Tape:
    """Choices, one after another; when it has run out, always the first one."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    @property
    def left(self) -> int:
        return len(self._data) - self._at

    def below(self, count: int) -> int:
        found = self._data[self._at] if self.left > 0 else 0
        self._at += 1
        return found * count // 256

    def one(self, of: Sequence[T]) -> T:
        return of[self.below(len(of))]

    def some(self, of: Sequence[T]) -> list[T]:
        return [one for one in of if self.below(2)]

    def limits(self, of: Sequence[int | None]) -> dict[str, int]:
        return {name: value for name in DIMENSIONS if (value := self.one(of)) is not None}


# --- what there is ----------------------------------------------------------------------------------------------------


def steps(tape: Tape, team: str) -> list[dict[str, Any]]:
    """One to four steps, each needing some of those before it. `team` is whom a step may ask for a child run."""
    made: list[dict[str, Any]] = []
    for name in "abcd"[: 1 + tape.below(4)]:
        fields: dict[str, Any] = {
            "needs": tape.some([one["id"] for one in made]),
            "missing": tape.one(("allow", "allow", "fail")),
            "attempts": tape.one((None, 1, 2, 4)),
            "budget": tape.limits(FEW) if tape.below(2) else {},
        }
        if items := tape.one((0, 0, 2, 3, 5)):
            fields |= {"for_each": f"input.n[:{items}]", "fact": f"{name}.k{{index}}"}
        if team and not tape.below(3):
            made.append({"id": name, "team": team, "input": {"n": "input.n"}, **fields})
        else:
            made.append(_with_doer(tape, name, fields))
    return made


def _with_doer(tape: Tape, name: str, fields: dict[str, Any]) -> dict[str, Any]:
    fields |= {"tasks": tape.one((256, 1, 2)), "backoff_s": tape.one((None, 0, 1)), "wait_s": tape.one((60, 5))}
    fields["specialist"] = tape.one(("", "", "all", SPECIALISTS[0]))
    if fields["specialist"] == "all":
        fields["merge"] = {"policy": tape.one(("only", "first", "highest_confidence"))}
    else:
        fields["fallback"] = tape.some(SPECIALISTS[::-1])
        fields["hand_to"] = tape.one(([], [*SPECIALISTS, *CAPABILITIES]))
    return step(name, tape.one(CAPABILITIES), **{key: value for key, value in fields.items() if value is not None})


def playbook(tape: Tape, team: str, child: str = "") -> Said:
    fields: dict[str, Any] = {
        "parallel": tape.one((32, 3, 2, 1)),
        "budget": tape.limits(MANY) if tape.below(2) else {},
        "breaker": tape.one((0, 10, 2, 1)),
        "repeats": tape.one((3, 0, 1)),
        "on_loop": tape.one(("stop", "ask")),
        "steps": steps(tape, child),
    }
    if tape.below(2):
        fields["replans"] = [{"step": "a", "steps": [step("z", "write")]}]
    if tape.below(2):
        fields["deadline_s"] = 600
    return teach(*fields.pop("steps"), team=team, **fields)


def world(tape: Tape) -> Books:
    """A board with a run under way, and with child runs, up to two deep, where its playbook asks for them."""
    contracts = [
        offer(name, *CAPABILITIES, authority="propose", budget=tape.limits(FEW), attempts=tape.one((3, 1, 2)))
        for name in SPECIALISTS[: 1 + tape.below(4)]
    ]
    teams = [playbook(tape, "v"), playbook(tape, "u", "v"), playbook(tape, "t", tape.one(("u", "v", "")))]
    books = Books(*contracts, *teams)
    books.say(goal({"n": list(range(5))}, budget=tape.limits(MANY)))
    return books.follow()


# --- what happens -----------------------------------------------------------------------------------------------------


class Life:
    """What happens to the runs of a board. `overspends`: specialists do not keep within what was reserved; `twice`:
    attempts end by more than one execution."""

    def __init__(self, tape: Tape, overspends: bool = True, twice: bool = True) -> None:
        self.tape, self.books = tape, world(tape)
        self._overspends, self._twice = overspends, twice

    def live(self) -> Books:
        afterwards = 0
        while self.tape.left > 0 and afterwards < AFTERWARDS:
            if (said := self._next()) is not None:
                self.books.say(said)
                self.books.follow()
            afterwards += all(folded.state.end for run, folded in self.books.folded.items() if run != BOARD_RUN)
        return to_the_end(self.books)

    def _next(self) -> Said | Due | None:
        """What comes next to one of the runs; None where nothing can."""
        tape, books = self.tape, self.books
        runs = [run for run, folded in books.folded.items() if folded.state.goal]
        going = [run for run in runs if not books.of(run).end]
        state = books.of(tape.one(going if going and tape.below(4) else runs))
        flying = [] if state.end else [n for n, one in state.tasks.items() if one.status == "dispatched"]
        flying = [name for name in flying if not state.tasks[name].child]
        kinds = [
            *([self._end] * 16 + [self._start] * 2 if flying else []),
            *([self._timer] * 2 if state.timers else []),
            *([self._late] if any(one.open and not one.child for one in state.tasks.values()) else []),
            *([self._again, self._tool, self._tool, self._tool, self._stranger] if state.tasks else []),
            *([self._second] if self._twice and state.tasks else []),
            *([self._answer] * 3 if state.open_gates else []),
            *([self._cancel] if not tape.below(100) else []),
        ]
        return tape.one(kinds)(state, flying) if kinds else None

    def _end(self, state: State, flying: list[str]) -> Said:
        name = self.tape.one(flying)
        task = state.tasks[name]
        fields: dict[str, Any] = {"usage": self._usage(state, name, task.attempt, task.specialist)}
        fields |= {"execution": f"x{self.books.seq}", "attempt": task.attempt, "by": task.specialist, "run": state.run}
        hand_to = state.step(task.step).hand_to
        match self.tape.one(("value", "value", "value", "value", "code", "code", "hand", "ask")):
            case "hand" if hand_to:
                return ended(name, code="HANDED_OFF", to=self.tape.one(hand_to), **fields)
            case "ask":
                question = {"ask": "may it?", "action": {"n": self.tape.below(2)}}
                return ended(name, code="NEEDS_INPUT", question=question, **fields)
            case "code":
                return ended(name, code=self.tape.one(CODES), **fields)
        return ended(name, {item.key: 1 for item in _items(state, name)}, **fields)

    def _usage(self, state: State, name: str, attempt: int, by: str) -> dict[str, int]:
        """What an execution reports: within what is reserved for it, now and then beyond."""
        opened = state.tasks[name].open
        reserve = next((one.limits for one in opened if (one.attempt, one.specialist) == (attempt, by)), Limits())
        beyond = 10 if self._overspends and not self.tape.below(30) else 0
        said: dict[str, int] = {}
        for dimension in DIMENSIONS:
            most = (30 if (limit := getattr(reserve, dimension)) is None else limit) + beyond
            used = most * self.tape.below(5) // 4
            said["input_tokens" if dimension == "tokens" else dimension] = used
        return said

    def _start(self, state: State, flying: list[str]) -> Said:
        name = self.tape.one(flying)
        return started(name, state.tasks[name].attempt, state.tasks[name].specialist, "x", state.run)

    def _timer(self, state: State, _: list[str]) -> Due:
        return Due(self.tape.one(sorted(state.timers)), run=state.run)

    def _late(self, state: State, _: list[str]) -> Said:
        """The end of an attempt whose reservation is still there: late, or just the end."""
        tasks = state.tasks.items()
        there = [(name, one) for name, task in tasks if not task.child for one in task.open]
        name, one = self.tape.one(there)
        usage = self._usage(state, name, one.attempt, one.specialist)
        execution = f"x{self.books.seq}"
        return ended(name, {}, one.attempt, one.specialist, state.run, usage=usage, execution=execution)

    def _again(self, *_: Any) -> Said | None:
        cause = self.tape.one(self.books.inputs)
        address = cause.address
        return None if address.family == "goal" else Said(address.family, address.author, cause.body, address.run)

    def _tool(self, state: State, _: list[str]) -> Said:
        name = self.tape.one(sorted(state.tasks))
        task = state.tasks[name]
        body = {"type": "tool_called", "task": name, "attempt": task.attempt, "execution": "x", "tool": "get"}
        return Said("obs", task.specialist, body | {"input": "0", "code": "TOOL_DOWN"}, state.run)

    def _stranger(self, state: State, _: list[str]) -> Said:
        name = self.tape.one(sorted(state.tasks))
        return ended(name, {}, 1, "eve", state.run, usage={"input_tokens": 1_000}, execution=f"x{self.books.seq}")

    def _second(self, state: State, _: list[str]) -> Said:
        """Another execution of an attempt that was made, has ended, or never was."""
        name = self.tape.one(sorted(state.tasks))
        task = state.tasks[name]
        usage = {"input_tokens": self.tape.below(9), "tool_calls": self.tape.below(2)}
        attempt, execution = self.tape.below(task.attempt + 2), f"x{self.books.seq}"
        return ended(name, {}, attempt, task.specialist, state.run, usage=usage, execution=execution)

    def _answer(self, state: State, _: list[str]) -> Said:
        gate = self.tape.one(sorted(state.open_gates))
        kind = self.tape.one(("approve", "approve", "deny"))
        return Said("signal", "ann", {"type": kind, "gate": gate, "digest": state.gates[gate].digest}, state.run)

    def _cancel(self, state: State, _: list[str]) -> Said:
        return cancel(run=state.run)


def _items(state: State, name: str) -> tuple[Item, ...]:
    (entry,) = effects.entries(state, {key for key in effects.in_flight(state) if key.task == name}, lambda _: None)
    return decode_task(entry.data).items


def to_the_end(books: Books) -> Books:
    """Let what is due come due; where that takes long, cancel the first run. Then every run has ended."""
    for _ in range(PATIENCE):
        going = [run for run, folded in books.folded.items() if folded.state.goal and not folded.state.end]
        if not going:
            return books
        run = going[-1]
        timers = books.of(run).timers
        books.say(Due(min(timers, key=lambda name: (timers[name].delay_ms, name)), run=run))
        books.follow()
    books.say(cancel())
    books.follow()
    assert all(folded.state.end for run, folded in books.folded.items() if run != BOARD_RUN)
    return books
