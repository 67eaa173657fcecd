"""Effects: what should be true outside of the log, given the stored state of a run.

Pure. Derived by level, from what is stored and never from what just happened, so a supervisor that takes over derives
the same: tasks in the queue, goals of child runs, wakes for parents, children and awaited contracts.
"""

from collections.abc import Iterator

from msgspec import UNSET, Struct

from blackboard.queue import Entry, TaskKey
from projections.bookings import held
from projections.canonical import State
from schemas.catalogue import View
from schemas.codec import encode
from schemas.goals import Budget, Goal, Granted, ParentTask
from schemas.grants import Grant
from schemas.inputs import CapabilityCame, ChildEnded, ParentEnded, Wake
from schemas.taint import joined
from schemas.usage import Limits, Usage
from supervisor.briefings import ContractAt
from supervisor.documents import Work
from supervisor.messages import granted, reserved_for, tainted, task_message
from supervisor.policy import chosen, span_id


class ChildGoal(Struct, frozen=True):
    """The goal of a child run that should be on the log: its bytes are the same whenever they are derived. `task` is
    the task of the parent that asks for it."""

    run: str
    task: str
    data: bytes


class Look(Struct, frozen=True):
    """What the queue looked like: attempts in flight that were absent, entries that were there, and the log's head
    after that."""

    absent: set[TaskKey]
    there: set[TaskKey]
    head: int


def in_flight(state: State) -> set[TaskKey]:
    """What should be in the queue for this run; while it is ending, what undoes its effects."""
    if state.end:
        return set()
    return {
        TaskKey(task.specialist, state.run, name, task.attempt)
        for name, task in state.tasks.items()
        if task.status == "dispatched" and not task.child and (not state.ending or state.step(task.step).undo)
    }


def entries(state: State, keys: set[TaskKey], contract_at: ContractAt) -> list[Entry]:
    """The queue entries of those of this run's tasks in flight that `keys` names, in the order of the plan."""
    works: dict[str, Work] = {}
    found: list[Entry] = []
    for name, task in state.tasks.items():
        key = TaskKey(task.specialist, state.run, name, task.attempt)
        if task.status == "dispatched" and key in keys:
            if task.step not in works:
                works[task.step] = Work(state, state.step(task.step))
            message = task_message(works[task.step], name, span_id(state.run, name, task.attempt), contract_at)
            found.append(Entry(key, encode(message)))
    return found


def child_goals(state: State) -> Iterator[ChildGoal]:
    """The goals of the child runs that tasks in flight ask for."""
    if state.over:
        return
    depth = state.parent.depth + 1 if state.parent else 1
    for name, task in state.tasks.items():
        if task.status == "dispatched" and task.child:
            work = Work(state, state.step(task.step))
            items = work.items(state.steps[task.step], task.group, task.read_version)
            share = reserved_for(task)
            goal = Goal(
                team=task.specialist,
                input=items[0].input,
                budget=Budget(tokens=share.tokens, tool_calls=share.tool_calls, micro_usd=share.micro_usd),
                parent=ParentTask(run=state.run, task=name, depth=depth),
                grant=_granted(granted(work)),
                taint=list(tainted(work, task, task.read_version)) or None,
            )
            unset = {"budget"} if share == Limits() else None
            yield ChildGoal(task.child, name, goal.model_dump_json(exclude_none=True, exclude=unset).encode())


def _granted(grant: Grant | None) -> Granted | None:
    if grant is None:
        return None
    tools, scopes = (None if names is None else list(names) for names in (grant.tools, grant.scopes))
    return Granted(tools=tools, scopes=scopes)


def children(state: State) -> list[str]:
    """The child runs that the run asked for and has not heard of."""
    return [task.child for task in state.tasks.values() if task.status == "dispatched" and task.child]


def wake_about_child(goal: ChildGoal, child: State, h: str, parent: State) -> Wake | None:
    """What a parent must be told about the run that it asked for by `goal`: that it has ended, or that the run is not
    its own: somebody else came first, whose goal counts. The next attempt has a run of another name."""
    if child.parent and (child.parent.run, child.parent.task) == (parent.run, goal.task):
        return wake_for_parent(child, h, parent)
    return ChildEnded(
        task=goal.task,
        child=child.run,
        end="FAILED_RETRYABLE",
        code="TOOL_DOWN",
        reason="another goal came first",
        result=None,
        usage=Usage(),
        version=child.version,
        h=h,
    )


def wake_for_parent(child: State, h: str, parent: State) -> Wake | None:
    """What a parent that still waits must be told about a child run that has ended."""
    if not child.end or child.parent is None or parent.over:
        return None
    task = parent.tasks.get(child.parent.task)
    if task is None or task.status != "dispatched" or task.child != child.run:
        return None
    return ChildEnded(
        task=child.parent.task,
        child=child.run,
        end=child.end,
        code=child.code,
        reason=child.reason,
        result=child.result,
        usage=child.usage,
        version=child.version,
        h=h,
        held=held(child),
        taint=joined(child.taint, *(fact.taint for fact in child.facts.values())) or UNSET,
    )


def wake_for_child(parent: State, child: State) -> Wake | None:
    """What a child run that goes on must be told when its parent has ended, or asked for it no longer."""
    if child.end or child.parent is None:
        return None
    task = parent.tasks.get(child.parent.task)
    wanted = not parent.over and task is not None and task.status == "dispatched" and task.child == child.run
    return None if wanted else ParentEnded(parent=parent.run)


def wake_for_capability(state: State, view: View) -> Wake | None:
    """What a run must be told when somebody offers now what one of its steps waits for."""
    if state.over:
        return None
    for name, step in state.steps.items():
        if step.awaiting and step.items < 0 and not step.skipped:
            who = chosen(Work(state, state.step(name)), state, view)
            if who.voices or who.nobody:
                return CapabilityCame(capability=step.awaiting)
    return None
