"""Two supervisors decide all the time, as if they did not hear each other: who wins changes from message to message,
what is written does not."""

from collections import Counter
from pathlib import Path

from blackboard.board import Board
from blackboard.client import Client
from projections.history import state_digest
from schemas import events as e
from tests.end_to_end import teams
from tests.end_to_end.support import Start, ended, history_of, offered, task_events

RUNS, SMALL, LARGE = 24, 12, 140
SHARE = 0.2
NEVER_STANDS_BY = """
from supervisor.announcing import Announcing
Announcing.active = property(lambda self: True)
"""


async def test_each_wins_over_a_fifth_and_no_attempt_is_accepted_twice(
    shared: Board, there: list[str], start: Start, start_patched: Start, tmp_path: Path
) -> None:
    supervisors = [start_patched(NEVER_STANDS_BY, "supervise", *there) for _ in range(2)]
    worker = start("attach", teams.write(tmp_path, "squares", teams.SQUARES), *there)
    await offered(shared, "squares", "squarer", "adder")
    for supervisor in supervisors:
        await supervisor.says("took over")
    client = Client(shared, "publisher")
    inputs = {f"small-{number}": list(range(number, number + SMALL)) for number in range(RUNS)}
    inputs["large"] = list(range(LARGE))
    for run, numbers in inputs.items():
        await client.publish("squares", {"numbers": numbers, "pause_s": 0.05}, run)

    written: Counter[str] = Counter()
    for run, numbers in inputs.items():
        state = await ended(shared, run)
        assert (state.end, state.result) == ("DONE", {"total": sum(number**2 for number in numbers)})
        folded, told = await history_of(shared, run)
        for message, events in told:
            written[(message.headers or {})["writer"]] += len(events)
        held = [message.headers["state"] for message, _ in told if message.headers and "state" in message.headers]
        assert held == [state_digest(folded.state)]
        accepted = Counter((event.task, event.attempt) for _, events in told for event in task_events(events))
        assert len(accepted) == len(numbers) + 1
        assert set(accepted.values()) == {1}
        dispatched = [event for _, events in told for event in events if isinstance(event, e.TaskDispatched)]
        assert len(dispatched) == len(numbers) + 1
    shares = {writer: events / written.total() for writer, events in written.items()}
    print(f"{written.total()} events of {len(inputs)} runs: {shares}")
    assert len(shares) == 2
    assert min(shares.values()) > SHARE
    assert [program.code for program in (*supervisors, worker)] == [None] * 3
