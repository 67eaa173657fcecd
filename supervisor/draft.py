"""The draft of a decision: events so far, and the state that they lead to.

Pure. `decide` emits events one by one and looks at the state after each, so no rule is written twice, once for deciding
and once for remembering.
"""

from typing import Any

from projections.bookings import reservation
from projections.canonical import LATE_LIMIT, State, TaskState, late_name
from projections.evolve import evolve
from schemas import events as e
from schemas import events_of_effects as f
from schemas.catalogue import View
from schemas.codec import encode
from schemas.inputs import ChildEnded, Ended, Input
from schemas.steps import PlanStep
from schemas.usage import COUNT_LIMIT
from supervisor.documents import Work
from supervisor.reasons import of_effects

Draftable = type[e.Event]


class Draft:
    """A decision about one input. `view` is the catalogue below the input, `size` the bytes of its events."""

    def __init__(self, state: State, cause: Input, view: View) -> None:
        self.state = state
        self.view = view
        self.events: list[e.Event] = []
        self.size = 0
        self._works: dict[tuple[str, int], Work] = {}
        self._at = max(state.now, cause.time_ms)
        self._cause = e.Cause(cause.seq, cause.sha256)

    def emit(self, kind: Draftable, **fields: Any) -> None:
        event = kind(at=self._at, cause=self._cause, **fields)
        self.events.append(event)
        self.size += len(encode(event))
        self.state = evolve(self.state, event)

    def work(self, step: PlanStep) -> Work:
        """The work of a step whose needs are decided; from then on it does not change until a fact gets a newer value.
        Raises BadExpression."""
        known = (step.id, self.state.replaced)
        if known not in self._works:
            self._works[known] = Work(self.state, step)
        return self._works[known]

    def step_of(self, task: str) -> PlanStep:
        return self.state.step(self.state.tasks[task].step)

    def late(self, author: str, reason: str, end: Ended | None = None) -> None:
        """Record an input that is not awaited; of each author the first LATE_LIMIT, then that it is muted. `end` is the
        end of an execution: who had the task and no child run has its usage booked, and where a reservation waits for
        it, that counts towards no limit."""
        task = self.state.tasks.get(end.task) if end else None
        if end is None or task is None or task.child or author not in {task.specialist, *task.tried}:
            if self._counts(author):
                self.emit(e.InputLate, author=author, reason=reason)
        elif reservation(task, end.attempt, author) or self._counts(author):
            self.emit(e.InputLate, author=author, reason=reason, **_booked(end))

    def child_late(self, task: TaskState, child: ChildEnded, reason: str) -> None:
        """Book what the child run of a task has used, though the run cannot take its end."""
        booked = {"task": child.task, "execution": child.child, "usage": child.usage, "attempt": task.attempt}
        self.emit(e.InputLate, author=task.specialist, reason=reason, **booked)

    def rejected(self, author: str, subject: str, reason: str) -> None:
        """Record, in `_board`, an input that belongs to no run."""
        if self._counts(author):
            self.emit(e.InputRejected, author=author, subject=subject[:256], reason=reason[:1000])

    def _counts(self, author: str) -> bool:
        count = self.state.late.get(late_name(self.state, author), 0)
        if count == LATE_LIMIT:
            self.emit(e.AuthorMuted, author=author)
        return count < LATE_LIMIT

    def end(self, end: e.End, code: str = "", reason: str = "", result: dict[str, Any] | None = None) -> None:
        """End the run; one that ends in vain first undoes what it has done to the world, or may be doing. A run that is
        ending already ends as it was going to."""
        if self.state.ending is not None:
            return
        if end in {"DONE", "DEGRADED"}:
            self.emit(e.RunEnded, end=end, code=code, reason=reason[:1000], result=result)
        elif (waits := self._in_effect()) or any(effect.undo for effect in self.state.effects.values()):
            for name in [name for name, task in self.state.tasks.items() if task.status == "dispatched"]:
                if name not in waits:
                    self.emit(e.TaskDropped, task=name, reason="the run is ending")
            self.emit(f.RunEnding, end=end, code=code, reason=reason[:1000], waits=tuple(waits))
        else:
            self.end_at_once(end, code, reason)

    def end_at_once(self, end: e.End, code: str, reason: str) -> None:
        """End the run in vain, as it stands, and say what became of its effects."""
        said = [text for text in (reason, *of_effects(self.state)) if text]
        self.emit(e.RunEnded, end=end, code=code, reason="; ".join(said)[:1000])

    def over(self, step: PlanStep) -> bool:
        """Whether nothing comes of a step any more; those that undo effects go on while a run is ending."""
        return bool(self.state.end) or (self.state.ending is not None and not step.undo)

    def _in_effect(self) -> list[str]:
        """The tasks in flight that may be in the middle of an effect which can be undone."""
        return [
            name
            for name, task in self.state.tasks.items()
            if task.status == "dispatched"
            and not task.child
            and not self.state.step(task.step).bid
            and (contract := self.view.contract_at(task.contract))
            and any(tool.effect and tool.effect.undo for tool in contract.tools)
        ]

    def fail(self, code: str, reason: str) -> None:
        """End the run because of a task's `code`, as the table of end states says."""
        match code:
            case "TOOL_DOWN" | "TIMEOUT":
                self.end("FAILED_RETRYABLE", code, reason)
            case "POLICY_BLOCKED":
                self.end("POLICY_BLOCKED", code, reason)
            case _:
                self.end("FAILED", code, reason)


def _booked(end: Ended) -> dict[str, Any]:
    attempt = min(end.attempt, COUNT_LIMIT)
    return {"task": end.task, "execution": end.execution[:64], "usage": end.usage, "attempt": attempt}
