"""One run under kills, from its goal to the history that is judged, and what each kill cost."""

import asyncio
import contextlib
from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise

from msgspec import Struct

from blackboard.board import Board
from blackboard.client import Client
from blackboard.log import Message
from projections.audit import STATE_HEADER
from projections.history import decoded, outcome_digest
from schemas import events as e
from schemas.codec import decode_facts
from schemas.inputs import Ended, read_input
from tests.chaos.kills import Kill, Killer, Planned
from tests.chaos.roles import Roles, Worker
from tests.chaos.team import PARALLEL, TEAM, VOICES
from tests.chaos.verdict import Begun, History, Verdict, judge, unanswered, unseen
from tests.end_to_end.support import call, ended, messages_on, offered, until

RUN_S = 200.0
"""How long a run may take."""
SILENCE_S = 20.0
"""How long the log may be silent: a killed worker's tasks come back after ACK_WAIT_S, and a process needs seconds to
start where the machine is busy. More says that something waits for what will not come."""
SETTLE_S = 15.0
"""How long the supervisor may take to answer what still comes after the end of the run."""


class Cost(Struct, frozen=True):
    """What a kill cost, in seconds: until the log had another message, until the process that took the place of the
    killed one was up, and until the log had a message of that one, or of one after it. None: the run went to its end
    without, or the process was killed before."""

    kill: Kill
    next_s: float | None
    up_s: float | None
    back_s: float | None


class Disturbed(Struct, frozen=True):
    """A run and what became of it. `begun` are its executions, `late` counts the ends that came too late; `silence` is
    the longest time between two messages, in seconds, with the number of the second; `missed` are the kills whose
    message never came: the run was over before."""

    run: str
    tasks: int
    messages: int
    took_s: float
    begun: tuple[Begun, ...]
    late: int
    silence: tuple[float, int]
    costs: list[Cost]
    missed: list[Planned]
    verdict: Verdict
    unseen: list[str]
    problems: list[str]
    """What else went wrong."""


class Undisturbed(Struct, frozen=True):
    """What a run without kills came to."""

    outcome: str
    tasks: int
    messages: int
    took_s: float


def goal(tasks: int) -> dict[str, list[int]]:
    """The input of a run of at least `tasks` tasks."""
    return {"numbers": list(range(-(-(tasks - 1) // VOICES)))}


async def undisturbed(board: Board, tasks: int) -> Undisturbed:
    await offered(board, TEAM.name, *(one.name for one in TEAM.specialists))
    await Client(board, "chaos").publish(TEAM.name, goal(tasks), "undisturbed")
    state = await ended(board, "undisturbed", RUN_S)
    assert state.end == "DONE", (state.end, state.reason)
    messages = await messages_on(board, *board.subjects.of_run("undisturbed"))
    return Undisturbed(outcome_digest(state), len(state.tasks), len(messages), _took_s(messages))


def _took_s(messages: Sequence[Message]) -> float:
    return (messages[-1].time_ms - messages[0].time_ms) / 1000


def _silence(messages: Sequence[Message]) -> tuple[float, int]:
    gaps = [(two.time_ms - one.time_ms, number) for number, (one, two) in enumerate(pairwise(messages), 2)]
    longest_ms, number = max(gaps)
    return longest_ms / 1000, number


async def disturb(
    board: Board, url: str, roles: Roles, run: str, planned: Sequence[Planned], calm: Undisturbed, seed: int
) -> Disturbed:
    """Publish the same goal, kill as planned, and judge the history."""
    killer, problems = await _under_kills(board, roles, run, planned, calm)
    if over := not problems:
        await _settled(board, run, roles)
    messages = await messages_on(board, *board.subjects.of_run(run))
    history = history_of(board, run, messages, roles.worker, killer.done)
    silence_s, number = silence = _silence(messages)
    if silence_s > SILENCE_S:
        problems.append(f"the log was silent for {silence_s:.1f} s before message {number}")
    if over:
        problems += await _checked(url, run, history.held)
    return Disturbed(
        run=run,
        tasks=len(history.state().tasks),
        messages=len(messages),
        took_s=_took_s(messages),
        begun=history.begun,
        late=sum(isinstance(event, e.InputLate) for event in history.events),
        silence=silence,
        costs=[_cost(board, kill, messages, roles) for kill in killer.done],
        missed=killer.planned,
        verdict=judge(history, calm.outcome, PARALLEL),
        unseen=unseen(history, calm.outcome, PARALLEL, seed),
        problems=problems,
    )


async def _under_kills(
    board: Board, roles: Roles, run: str, planned: Sequence[Planned], calm: Undisturbed
) -> tuple[Killer, list[str]]:
    """The kills, and what went wrong."""
    killer = Killer(board, run, planned, roles)
    reading = await board.log.subscribe(killer.on_messages, after=await board.log.head())
    ending, reader = asyncio.ensure_future(killer.ended.wait()), asyncio.ensure_future(reading.wait())
    try:
        await Client(board, "chaos").publish(TEAM.name, goal(calm.tasks), run)
        await asyncio.wait([ending, reader], timeout=RUN_S, return_when=asyncio.FIRST_COMPLETED)
        if reader.done():
            reader.result()
        return killer, [] if ending.done() else [f"run {run} did not end within {RUN_S:g} s: {killer.where}"]
    finally:
        ending.cancel()
        await reading.close()
        await asyncio.gather(reader, return_exceptions=True)


async def _settled(board: Board, run: str, roles: Roles) -> None:
    """Return when workers are idle and every end on the log is answered, or SETTLE_S have passed: then some are lost,
    which the verdict says."""
    with contextlib.suppress(AssertionError):
        await until(lambda: _is_settled(board, run, roles), "answers", SETTLE_S)


async def _is_settled(board: Board, run: str, roles: Roles) -> bool:
    if roles.worker.in_hand():
        return False
    history = history_of(board, run, await messages_on(board, *board.subjects.of_run(run)), roles.worker)
    return not unanswered(history)


def history_of(
    board: Board, run: str, messages: Sequence[Message], worker: Worker, kills: Sequence[Kill] = ()
) -> History:
    """What the log and the workers know of the run. With the server the queue is lost, which `kills` tell."""
    fact, events, ends, held = board.subjects.fact(run), list[e.Event](), list[tuple[str, Ended]](), ""
    for message in messages:
        if message.subject == fact:
            events += [event for _, event in decoded(decode_facts(message.data))]
            held = (message.headers or {}).get(STATE_HEADER, "")
        elif isinstance(end := _observed(board, message), Ended):
            ends.append((board.subjects.parse(message.subject).author, end))
    said = [(place, record) for place, record in enumerate(worker.said()) if record["run"] == run]
    lost = [kill.said for kill in kills if kill.role == "server"]
    return History(
        log=board.log.id,
        run=run,
        events=tuple(events),
        ends=tuple(ends),
        stored=frozenset(record["execution"] for _, record in said if record["event"] == "stored"),
        begun=tuple(
            Begun(record["task"], record["attempt"], bisect_right(lost, place))
            for place, record in said
            if record["event"] == "begun"
        ),
        held=held,
    )


def _observed(board: Board, message: Message) -> object:
    """The observation that a message is, if it is one."""
    address = board.subjects.parse(message.subject)
    if address.family != "obs":
        return None
    return read_input(message.seq, message.subject, address, message.time_ms, message.data).body


async def _checked(url: str, run: str, held: str) -> list[str]:
    """What the command finds wrong with the run: `rebuild --check`, and `replay`, which decides it again."""
    problems: list[str] = []
    rebuilt = await call("rebuild", run, "--check", "--json", "--nats", url)
    if rebuilt.code or rebuilt.json["state"] != held:
        problems.append(f"rebuild --check: {rebuilt.out or rebuilt.err}")
    replayed = await call("replay", run, "--json", "--nats", url)
    if replayed.code:
        problems.append(f"replay: {replayed.out or replayed.err}")
    return problems


# --- what a kill cost -------------------------------------------------------------------------------------------------


def _cost(board: Board, kill: Kill, messages: Sequence[Message], roles: Roles) -> Cost:
    later = [message for message in messages if message.time_ms > kill.at_ms]
    by_others = later
    if kill.role == "supervisor":
        writers = {str(life.pid) for life in roles.supervisor.lives[kill.life + 1 :]}
        by_others = [one for one in later if (one.headers or {}).get("writer", "").partition("-")[0] in writers]
    elif kill.role == "worker":
        executions = {record["execution"] for record in roles.worker.said(kill.life + 1)}
        by_others = [one for one in later if getattr(_observed(board, one), "execution", None) in executions]
    up_ms = roles[kill.role].lives[kill.life + 1].up_ms
    return Cost(kill, _since(kill, _first_ms(later)), _since(kill, up_ms), _since(kill, _first_ms(by_others)))


def _first_ms(messages: Sequence[Message]) -> float | None:
    return messages[0].time_ms if messages else None


def _since(kill: Kill, at_ms: float | None) -> float | None:
    return None if at_ms is None else (at_ms - kill.at_ms) / 1000
