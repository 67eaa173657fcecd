"""`blackboard approve`, `deny` and `answer`: which gate is meant, whether this person may answer it, and what became of
the answer.

What is asked is shown before anything is appended (`cli_asked`). The answer cites the digest of what was shown; what
the run made of it is read back.
"""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Literal

import click
from msgspec import Struct

from blackboard.board import Board
from blackboard.client import BadInput, Client
from blackboard.find import find_run
from blackboard.options import USAGE, BoardOptions
from projections.canonical import LATE_LIMIT, Gate, State
from projections.cli_answer import Source, read_answer
from projections.cli_asked import show_gate
from projections.cli_text import value
from projections.live import follow_to
from projections.rebuild import history, rebuild
from projections.status import answered, answering, is_muted, kind, may_answer
from schemas import events as e
from schemas.access import Role

Verb = Literal["approve", "deny", "answer"]
ANSWER_SHOWN = 200
"""Characters of an answer that was taken."""


class NoGate(LookupError):
    """There is nothing to answer."""

    exit_code = 1


class OtherVerb(LookupError):
    """The gate asks for something else than what the command says."""

    exit_code = USAGE


class NotAsked(Exception):
    """Other people are asked."""

    exit_code = 1


class Refused(Exception):
    """The answer was not taken."""

    exit_code = 1


class Asked(Struct, frozen=True):
    """The gate that is meant, as of `version` of the run. `vain`: why an answer to it would leave no trace, with the
    digest that it cites."""

    run: str
    version: int
    name: str
    gate: Gate
    vain: Callable[[str], str]


Append = Callable[[Client, str, str, str], Awaitable[int]]
"""(client, run, gate, digest) -> the sequence of the answer."""


def approve_or_deny(
    options: BoardOptions, run: str, name: str | None, cited: str | None, approve: bool, sure: bool, reason: str
) -> None:
    """`cited` or `sure` answer without asking; `cited` must be the digest of the open gate."""
    verb: Verb = "approve" if approve else "deny"
    asked = options.run(_look(options, run, name, verb))
    if not (cited or sure):
        click.confirm(f"{verb} {asked.name} of {asked.run}?", abort=True, err=True)

    def append(client: Client, run: str, gate: str, digest: str) -> Awaitable[int]:
        return client.approve(run, gate, digest) if approve else client.deny(run, gate, digest, reason)

    record = options.run(_send(options, asked, cited, append), role="client") | {"approved": approve}
    done = "approved" if approve else "denied"
    options.say(record, f"{asked.name} of {asked.run} is {done}, at sequence {record['seq']}")


def answer(options: BoardOptions, run: str, name: str | None, cited: str | None, source: Source) -> None:
    """Answer with a value that satisfies the schema of the gate; nothing else is appended."""
    asked = options.run(_look(options, run, name, "answer"))
    try:
        said = read_answer(source, asked.gate.schema or {})
    except BadInput as error:
        options.fail(error)

    def append(client: Client, run: str, gate: str, digest: str) -> Awaitable[int]:
        return client.answer(run, gate, digest, said)

    record = options.run(_send(options, asked, cited, append), role="client") | {"value": said}
    told = f"answered with {value(said, ANSWER_SHOWN)}"
    options.say(record, f"{asked.name} of {asked.run} is {told}, at sequence {record['seq']}")


async def _look(options: BoardOptions, text: str, name: str | None, verb: Verb) -> Asked:
    """Find the gate and show it. No connection is held while a person thinks about it."""
    settings = options.settings()
    async with settings.open(verb, Role.APPROVER) as board:
        run = await find_run(board, text)
        state, found, gate = await _find_gate(board, run, name, verb, settings.name)
        if not options.as_json:
            await show_gate(board, run, found, gate)
    return Asked(run, state.version, found, gate, partial(_vain, state, found, gate, settings.name))


async def _send(options: BoardOptions, asked: Asked, cited: str | None, append: Append) -> dict[str, Any]:
    settings, digest = options.settings(), cited or asked.gate.digest
    if problem := asked.vain(digest):
        raise Refused(f"not sent: {problem}")
    async with settings.open("answer", Role.APPROVER) as board:
        seq = await append(Client(board, settings.name), asked.run, asked.name, digest)
        now = (await _read_back(board, asked, settings.name, seq)).open_gates.get(asked.name)
    if now and now.digest != digest:
        click.echo(f"{asked.name} of {asked.run} asks anew, because something is not as it was; look again", err=True)
    return {"run": asked.run, "gate": asked.name, "digest": digest, "seq": seq}


# --- before -----------------------------------------------------------------------------------------------------------


async def _find_gate(board: Board, run: str, name: str | None, verb: Verb, person: str) -> tuple[State, str, Gate]:
    """The gate that is meant. An answered gate is returned as well when it is named: the run says what it thinks.

    Raises NoGate, OtherVerb, NotAsked.
    """
    state = (await rebuild(board, run)).state
    if name and name in state.gates:
        found, gate = name, state.gates[name]
    else:
        found, gate = _only_open(state, name, verb)
    if not _fits(found, gate, verb):
        raise OtherVerb(_other_verb(run, found, gate))
    if found in state.open_gates and not may_answer(gate, person):
        raise NotAsked(
            f"gate {found} of run {run} is for {' or '.join(gate.who)}, and you are {person} (--name says who you are)"
        )
    return state, found, gate


def _only_open(state: State, name: str | None, verb: Verb) -> tuple[str, Gate]:
    gates, run = state.open_gates, state.run
    if name or not gates:
        known = ", ".join(f"{key} ({answered(state, key)})" for key in state.gates) or "none"
        raise NoGate(f"run {run} has no open gate{f' {name!r}' if name else ''}; its gates: {known}")
    fitting = [key for key, gate in gates.items() if _fits(key, gate, verb)]
    if len(fitting) > 1 or (not fitting and len(gates) > 1):
        raise NoGate(f"run {run} has {len(gates)} open gates: name one of {', '.join(gates)} with --gate")
    chosen = fitting[0] if fitting else next(iter(gates))
    return chosen, gates[chosen]


def _fits(name: str, gate: Gate, verb: Verb) -> bool:
    """Whoever is asked for a value may also refuse to give one."""
    return verb == "deny" or (kind(name, gate) == "answer") == (verb == "answer")


def _other_verb(run: str, name: str, gate: Gate) -> str:
    what = "asks for a value" if kind(name, gate) == "answer" else "asks for an approval"
    return f"gate {name} of run {run} {what}: use `blackboard {answering(run, name, gate)}`"


def _vain(state: State, name: str, gate: Gate, author: str, digest: str) -> str:
    """Why the run would not take an answer that it would not record either: then nobody could wait for its reason."""
    if not is_muted(state, author):
        return ""
    problem = f"gate {name} has another digest" if digest != gate.digest else ""
    if name not in state.open_gates:
        problem = "the run has ended" if state.end else f"gate {name} is {answered(state, name)} already"
    return f"{problem}, and {_muted(state.run, author)}" if problem else ""


def _muted(run: str, author: str) -> str:
    return f"{author} is muted in run {run}: after {LATE_LIMIT} inputs that were not awaited, others are not recorded"


# --- after ------------------------------------------------------------------------------------------------------------


async def _read_back(board: Board, asked: Asked, author: str, seq: int) -> State:
    """Wait for what the run made of the answer, and return it. Raises Refused with the run's reason."""
    run, name = asked.run, asked.name

    def in_vain(state: State) -> bool:
        """Nothing will be recorded: somebody else was faster."""
        return state.version >= asked.version and is_muted(state, author) and name not in state.open_gates

    folded = await follow_to(board, run, seq, in_vain)
    _, events = await history(board, run)
    if reason := _refusal([item.event for item in events if item.event.cause.seq == seq], name):
        raise Refused(f"not taken: {reason} (sequence {seq})")
    if not any(item.event.cause.seq == seq for item in events):
        why = f"; {_muted(run, author)}" if is_muted(folded.state, author) else ""
        raise Refused(f"not taken: gate {name} is {answered(folded.state, name)}{why}")
    return folded.state


def _refusal(events: Sequence[e.Event], name: str) -> str:
    """Why the input that brought these events about did not answer the gate; empty where it did."""
    for event in events:
        match event:
            case e.GateAnswered(gate=gate) if gate == name:
                return ""
            case e.InputLate(reason=reason):
                return reason
            case e.AuthorMuted(author=author):
                return f"it was not awaited, and {author} is muted from now on"
            case e.RunEnded(end=end, reason=reason):
                return f"the run is {end}: {reason}"
    return ""
