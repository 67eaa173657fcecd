"""`blackboard show`: one run as it is now, and the inputs that belong to none."""

from typing import Any

import click

from blackboard.board import Board
from blackboard.find import find_run
from blackboard.options import BoardOptions
from projections.audit import Recorded
from projections.canonical import State
from projections.cli_events import sentence
from projections.cli_text import clean, console, count, dollars, lasting, value, when
from projections.history import Folded
from projections.rebuild import history
from projections.status import answered, digests, muted, status
from schemas.events import (
    BreakerOpened,
    ConflictFound,
    InputRejected,
    LoopFound,
    PlanRevised,
)
from schemas.events_of_effects import RunEnding
from schemas.plan_events import PlanExtended, PlanRefused
from schemas.subjects import BOARD_RUN

NAMES_SHOWN = 20
MONEY = "micro_usd"
_CHANGES = PlanRevised | PlanExtended | PlanRefused | BreakerOpened | LoopFound | ConflictFound | RunEnding


async def show_run(options: BoardOptions, text: str) -> None:
    settings = options.settings()
    async with settings.open("show") as board:
        run = await find_run(board, text)
        folded, events = await history(board, run)
        if run == BOARD_RUN:
            _show_board(options, folded, events)
        elif folded.state.version == 0:
            await _show_unopened(options, board, run)
        elif options.as_json:
            options.say(status(folded, events))
        else:
            _print(status(folded, events), folded.state, events)


def _show_board(options: BoardOptions, folded: Folded, events: list[Recorded]) -> None:
    rejected = [_rejection(item.event) for item in events if isinstance(item.event, InputRejected)]
    if options.as_json:
        options.say({"run": BOARD_RUN, "rejected": rejected, "muted": muted(folded.state), "digests": digests(folded)})
        return
    if not rejected:
        click.echo("no input was rejected")
        return
    _table(["sequence", "author", "subject", "reason"], [list(map(str, row.values())) for row in rejected])
    for author in muted(folded.state):
        click.echo(clean(f"{author} is muted: what else of it is rejected is not recorded"))


def _rejection(event: InputRejected) -> dict[str, Any]:
    return {"seq": event.cause.seq, "author": event.author, "subject": event.subject, "reason": event.reason}


async def _show_unopened(options: BoardOptions, board: Board, run: str) -> None:
    """A run whose goal is on the log and that has no events."""
    goal = await board.log.last(board.subjects.goal("*", run))
    assert goal is not None, "a run was found by its goal"
    _, events = await history(board, BOARD_RUN)
    about = [item.event for item in events if isinstance(item.event, InputRejected)]
    reasons = [event.reason for event in about if event.cause.seq == goal.seq]
    told = f"was rejected: {reasons[0]}" if reasons else "waits for a supervisor; `blackboard supervise` runs one"
    phase = "REJECTED" if reasons else "GOAL"
    record = {"run": run, "phase": phase, "version": 0, "goal": goal.seq, "reason": "".join(reasons[:1])}
    options.say(record, clean(f"{run}: its goal (sequence {goal.seq}) {told}"))


def _print(now: dict[str, Any], state: State, events: list[Recorded]) -> None:
    took = lasting(now["now_ms"] - now["opened_ms"])
    click.echo(clean(f"{now['run']}  {now['phase']}  team {now['team']}, published by {now['publisher']}"))
    click.echo(f"opened {when(now['opened_ms'])} UTC, {took} up to event {now['version']}")
    if now["parent"]:
        click.echo(clean(f"asked for by task {now['parent']['task']} of run {now['parent']['run']}"))
    if now["end"] and (now["code"] or now["reason"]):
        click.echo(clean(f"because: {now['code']} {now['reason']}".replace(":  ", ": ")))
    for line in now["waits"]:
        click.echo(clean(line))
    _print_work(now)
    _print_changes(now, events)
    click.echo()
    _print_gates(state)
    _print_effects(now)
    _print_outcome(now)


def _print_work(now: dict[str, Any]) -> None:
    click.echo()
    _table(
        ["step", "status", "keys", "tasks", "by"],
        [
            [
                step["step"],
                step["status"],
                f"{step['settled']}/{step['items']}" if step["items"] is not None else "",
                f"{step['ended']}/{step['tasks']}" if step["tasks"] else "",
                ", ".join(step["voices"]) or step["by"],
            ]
            for step in now["steps"]
        ],
    )
    if now["in_flight"]:
        click.echo()
        rows = [
            [
                task["task"],
                task["with"],
                str(task["attempt"]),
                task["child"] or ("works" if task["started"] else "sent"),
            ]
            for task in now["in_flight"]
        ]
        _table(["task in flight", "with", "attempt", "so far"], rows)
    if now["timers"]:
        click.echo()
        rows = [[timer["timer"], lasting(timer["delay_ms"]), when(timer["armed_at_ms"])] for timer in now["timers"]]
        _table(["timer", "after", "from"], rows)


def _print_changes(now: dict[str, Any], events: list[Recorded]) -> None:
    """What did not go as the plan has it, and what is held up."""
    lines = [f"{sentence(item.event)} (event {item.version})" for item in events if isinstance(item.event, _CHANGES)]
    lines += [f"task {one['task']} goes on at {when(one['until_ms'])} UTC" for one in now["delayed"]]
    if now["ready"]:
        waiting = "waits" if len(now["ready"]) == 1 else "wait"
        room = f"{waiting} for room in `parallel` or in the budget"
        lines.append(f"{count(len(now['ready']), 'task')} {room}: {_names(now['ready'])}")
    if lines:
        click.echo()
    for line in lines:
        click.echo(clean(line))


def _print_gates(state: State) -> None:
    for name, gate in state.gates.items():
        whom = f" for {' or '.join(gate.who)}" if gate.who and name in state.open_gates else ""
        task = f", asked by task {gate.task}" if gate.task else ""
        click.echo(clean(f"gate {name}: {answered(state, name)}{whom}{task}; digest {gate.digest}"))


def _print_effects(now: dict[str, Any]) -> None:
    """What was done to the world; what was done more than once stands out."""
    for one in now["effects"]:
        known = {None: "nobody knows whether it was done", True: "done", False: "not done"}[one["done"]]
        times = f" {one['times']} TIMES" if one["times"] > 1 else ""
        undone = ", undone" if one["undone"] else ""
        undoes = ", to undo another" if one["undoes"] else ""
        told = f"effect {one['tool']} of task {one['task']}: {known}{times}{undone}{undoes}; "
        click.echo(clean(f"{told}{value(one['arguments'], 200)}, key {one['key']}"))


def _print_budget(now: dict[str, Any]) -> None:
    """Where there is a limit, or something is set aside, or was used beyond that."""
    rows = [
        [
            name.replace("_", " ") if name != MONEY else "US dollars",
            *("" if amount is None else _amount(name, amount) for amount in one.values()),
        ]
        for name, one in now["budget"].items()
        if one["limit"] is not None or one["reserved"] or one["overrun"]
    ]
    if rows:
        _table(["budget", "limit", "charged", "reserved", "overrun"], rows)


def _amount(name: str, amount: int) -> str:
    return dollars(amount) if name == MONEY else str(amount)


def _names(names: list[str]) -> str:
    return ", ".join(names[:NAMES_SHOWN]) + (", …" if len(names) > NAMES_SHOWN else "")


def _print_outcome(now: dict[str, Any]) -> None:
    facts = f"{count(len(now['facts']), 'fact')}, {now['conflicts']} disputed: {_names(now['facts'])}"
    click.echo(clean(facts.rstrip(": ")))
    for key, behind in now["stale"].items():
        click.echo(clean(f"stale {key}: rests on older values of {', '.join(behind)}"))
    if tainted := now["taint"]:
        labels = sorted({label for labels in tainted.values() for label in labels})
        click.echo(clean(f"{count(len(tainted), 'fact')} may rest on content from outside ({', '.join(labels)})"))
    for key, item in now["missing"].items():
        click.echo(clean(f"missing {key}: {item['code']} {item['message']}"))
    for author, times in now["late"].items():
        click.echo(clean(f"late: {count(times, 'input')} of {author}{', now muted' if author in now['muted'] else ''}"))
    usage = now["usage"]
    click.echo(
        f"used {usage['input_tokens']} input tokens, {usage['output_tokens']} output tokens, "
        f"{usage['tool_calls']} tool calls, ${dollars(usage['micro_usd'])}"
    )
    _print_budget(now)
    if now["result"] is not None:
        click.echo(f"result {value(now['result'], 2_000)}")
    for name, digest in now["digests"].items():
        click.echo(f"{name:<8} {digest}")


def _table(headings: list[str], rows: list[list[str]]) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in headings:
        table.add_column(heading)
    for row in rows:
        table.add_row(*map(clean, row))
    console().print(table)
