"""`blackboard approve`, `deny` and `answer`: which gate is meant, whether this person may answer it, and what became of
the answer.

What is asked is shown before anything is appended (`cli_asked`). The answer cites the digest of what was shown; what
the run made of it is read back.
"""

from collections.abc import Sequence
from typing import Literal

import click

from blackboard.board import Board, open_board
from blackboard.client import Client
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


async def answer_gate(
    options: BoardOptions, text: str, name: str | None, cited: str | None, approve: bool, sure: bool, reason: str
) -> None:
    """Approve or deny. `cited` or `sure` answer without asking; `cited` must be the digest of the open gate."""
    settings, verb = options.settings(), "approve" if approve else "deny"
    async with open_board(settings.nats, settings.board, name=verb) as board:
        run = await find_run(board, text)
        state, gate_name, gate = await _find_gate(board, run, name, "approve" if approve else "deny", settings.name)
        if not options.as_json:
            await show_gate(board, run, gate_name, gate)
        if not (cited or sure):
            click.confirm(f"{verb} {gate_name} of {run}?", abort=True, err=True)
        client, digest = Client(board, settings.name), cited or gate.digest
        _require_record(state, gate_name, gate, digest, settings.name)
        seq = await (client.approve(run, gate_name, digest) if approve else client.deny(run, gate_name, digest, reason))
        await _read_back(board, run, gate_name, settings.name, seq)
        record = {"run": run, "gate": gate_name, "digest": digest, "approved": approve, "seq": seq}
        options.say(record, f"{gate_name} of {run} is {'approved' if approve else 'denied'}, at sequence {seq}")


async def answer_question(
    options: BoardOptions, text: str, name: str | None, cited: str | None, source: Source
) -> None:
    """Answer with a value that satisfies the schema of the gate; nothing else is appended."""
    settings = options.settings()
    async with open_board(settings.nats, settings.board, name="answer") as board:
        run = await find_run(board, text)
        state, gate_name, gate = await _find_gate(board, run, name, "answer", settings.name)
        if not options.as_json:
            await show_gate(board, run, gate_name, gate)
        said, digest = read_answer(source, gate.schema or {}), cited or gate.digest
        _require_record(state, gate_name, gate, digest, settings.name)
        seq = await Client(board, settings.name).answer(run, gate_name, digest, said)
        await _read_back(board, run, gate_name, settings.name, seq)
        record = {"run": run, "gate": gate_name, "digest": digest, "value": said, "seq": seq}
        shown = value(said, ANSWER_SHOWN)
        options.say(record, f"{gate_name} of {run} is answered with {shown}, at sequence {seq}")


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


def _require_record(state: State, name: str, gate: Gate, digest: str, author: str) -> None:
    """A run does not record what a muted author says in vain, so nobody could wait for its reason: it is given here."""
    if not is_muted(state, author):
        return
    problem = f"gate {name} has another digest" if digest != gate.digest else ""
    if name not in state.open_gates:
        problem = f"gate {name} is {answered(state, name)} already"
    if state.end:
        problem = "the run has ended"
    if problem:
        raise Refused(f"not sent: {problem}, and {_muted(state.run, author)}")


def _muted(run: str, author: str) -> str:
    return f"{author} is muted in run {run}: after {LATE_LIMIT} inputs that were not awaited, others are not recorded"


# --- after ------------------------------------------------------------------------------------------------------------


async def _read_back(board: Board, run: str, name: str, author: str, seq: int) -> None:
    """Wait for what the run made of the answer. Raises Refused with the run's reason."""

    def in_vain(state: State) -> bool:
        """Nothing will be recorded: somebody else was faster."""
        return is_muted(state, author) and name in state.gates and name not in state.open_gates

    folded = await follow_to(board, run, seq, in_vain)
    _, events = await history(board, run)
    if reason := _refusal([item.event for item in events if item.event.cause.seq == seq], name):
        raise Refused(f"not taken: {reason} (sequence {seq})")
    if not any(item.event.cause.seq == seq for item in events):
        why = f"; {_muted(run, author)}" if is_muted(folded.state, author) else ""
        raise Refused(f"not taken: gate {name} is {answered(folded.state, name)}{why}")


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
