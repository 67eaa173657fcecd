"""What holds after every simulated run, whatever went wrong: worked out anew from the log, not from what the supervisor
believes."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from blackboard.simulation.invariants_of_a_run import (
    attempts_end_once,
    booked_usage,
    facts_are_claimed,
    state_at_each_event,
    state_at_rest,
)
from blackboard.simulation.invariants_of_coordination import promises
from blackboard.simulation.invariants_of_processes import conduct
from blackboard.simulation.parts import Broken, Chains, Folded, Happened, History, Parts
from schemas.codec import decode_event, decode_facts
from schemas.inputs import read_input
from schemas.subjects import BOARD_RUN, Subjects

BATCHES = (1, 7, 500)

Histories = Mapping[str, History]


def examined(
    happened: Happened, parts: Parts, batches: Sequence[int] = BATCHES, chains: Chains | None = None
) -> tuple[Histories, Broken | None]:
    """The runs, and the first invariant that does not hold, the most telling one. The log is decided again in
    `batches`, by `chains` (None: in this process)."""
    try:
        runs: Histories = histories(happened, parts)
    except Exception as error:
        return {}, Broken("histories fold", f"{type(error).__name__}: {error}")
    return runs, next(_broken(happened, runs, parts, batches, chains or parts.chains), None)


def histories(happened: Happened, parts: Parts) -> dict[str, History]:
    """Every run that the log names, `_board` among them. Raises what `fold` raises where versions are not dense, causes
    do not rise or the chain breaks."""
    subjects, found = Subjects(), dict[str, History]()
    for message in happened.messages:
        address = subjects.address(message.subject)
        if address is None or not address.run:
            continue
        run = address.run
        known = found.get(run) or History(parts.unwritten(happened.log_id, run), [], {}, [], [])
        if address.family == "fact":
            found[run] = _with_facts(known, message.data, message.seq, message.headers or {}, parts)
        else:
            read = read_input(message.seq, message.subject, address, message.time_ms, message.data)
            known.inputs[message.seq] = address.author, read.body
            found[run] = known
    return found


def _with_facts(known: History, data: bytes, seq: int, headers: Mapping[str, str], parts: Parts) -> History:
    facts = decode_facts(data)
    known.events.extend(decode_event(memoryview(raw)) for raw in facts.events)
    known.stored.extend(seq for _ in facts.events)

    def each(state: Any, event: Any) -> None:
        known.problems.extend(state_at_each_event(state))

    folded: Folded = parts.fold(known.folded, facts, seq, None, each)
    known.problems.extend(state_at_rest(folded.state))
    if (said := headers.get("state")) and said != parts.state_digest(folded.state):
        where = f"run {folded.state.run} in the message at sequence {seq}"
        known.problems.append(Broken("folding gives the live state", where))
    return known._replace(folded=folded)


def _broken(
    happened: Happened, runs: Histories, parts: Parts, batches: Sequence[int], chains: Chains
) -> Iterator[Broken]:
    for problem in happened.problems:
        yield Broken("processes live", problem)
    for run, history in runs.items():
        yield from history.problems
        if run != BOARD_RUN:
            yield from attempts_end_once(run, history)
            yield from facts_are_claimed(run, history)
            yield from booked_usage(run, history)
            yield from promises(run, history, happened.stored_s)
    yield from conduct(happened, runs)
    yield from _held(happened, runs, parts)
    if happened.hung:
        yield Broken("runs end", happened.hung)
    else:
        yield from _redecided(happened, runs, batches, chains)


def _held(happened: Happened, runs: Histories, parts: Parts) -> Iterator[Broken]:
    """What supervisors hold in memory is what the log adds up to."""
    for held in happened.held:
        run = held.state.run
        stored = runs[run].folded if run in runs else None
        if stored is None or stored.h != held.h or parts.state_digest(stored.state) != parts.state_digest(held.state):
            yield Broken("folding gives the live state", f"run {run} at version {held.state.version}")


def _redecided(happened: Happened, runs: Histories, batches: Sequence[int], chains: Chains) -> Iterator[Broken]:
    """The inputs bring about the same chains, whoever decides them, in batches of any size."""
    stored = {run: history.folded.h for run, history in runs.items() if history.events}
    for batch in batches:
        try:
            again = chains(happened.log_id, happened.messages, batch)
        except Exception as error:
            yield Broken("decided again, it is the same", f"in batches of {batch}: {type(error).__name__}: {error}")
            continue
        if again != stored:
            other = sorted(run for run in {*again, *stored} if again.get(run) != stored.get(run))
            yield Broken("decided again, it is the same", f"in batches of {batch}: {', '.join(other)}")
