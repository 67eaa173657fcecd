"""Inside its own permissions a hostile specialist cannot win: what it says out of place is late, rejected or muted, and
recorded, and what honest specialists do comes out as if it were not there.
"""

import asyncio
import itertools
import time
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from statistics import quantiles

import pytest

from projections.canonical import LATE_LIMIT
from projections.history import outcome_digest
from projections.verify import verify
from schemas import events as e
from schemas.codec import digest
from schemas.subjects import BOARD_RUN
from supervisor.compare import Equal, compare
from tests.access.hostile import GOALS, ZED, Stage, Zed, stages
from tests.plugins.figures import Figures

RUNS = [f"r{number}" for number in range(1, len(GOALS) + 1)]
KEY = digest("a key of another specialist's effect")[:32]
FLOOD = 3_000
BACKLOG = 200
"""Messages that the flood may be ahead of the supervisor: a flood that is faster piles up, on any machine."""
UNDER_WAY = 2_000
"""Messages that may come between the goal of a run and its end: its seven steps each wait for what lies before them."""


@pytest.fixture
async def both(tmp_path: Path) -> AsyncIterator[list[Stage]]:
    """The board that is attacked, and one that is left in peace."""
    async with stages(tmp_path, "main", "calm") as made:
        yield made


def out_of_place(zed: Zed, run: str, tasks: list[str], claimed: str) -> AsyncIterator[tuple[str, str, int]]:
    """What he says to a run in which he has no task: what it is, where it went, and the sequence."""

    async def say() -> AsyncIterator[tuple[str, str, int]]:
        for task, attempt in itertools.product([*tasks, "total", "no-such-task"], (1, 2, 0, 99)):
            end = zed.ends(task, attempt, {claimed: 10**6})
            yield f"end of {task}, attempt {attempt}", run, await zed.says(run, end)
        end = zed.ends(tasks[0] if tasks else "total", 1, {claimed: 10**6})
        for nth in ("an end", "the same again"):
            yield nth, run, await zed.says(run, end)
        for code in ("TOOL_DOWN", "INTERNAL", "POLICY_BLOCKED"):
            yield f"end with {code}", run, await zed.says(run, zed.ends("total", 1, code=code))
        question = {"ask": "may I?", "action": "everything"}
        yield "a question", run, await zed.says(run, zed.ends("total", code="NEEDS_INPUT", question=question))
        yield "a hand-off", run, await zed.says(run, zed.ends("total", code="HANDED_OFF", to=ZED))
        effect = {"task": "total", "attempt": 1, "execution": "zed-e", "tool": "pay", "key": KEY, "round": 1}
        intent = effect | {"type": "effect_intended", "arguments": {"amount": 1}}
        yield "an intent", run, await zed.says(run, intent, f".{KEY}.1")
        receipt = effect | {"type": "effect_receipt", "done": True, "result": "paid"}
        yield "a receipt", run, await zed.says(run, receipt)

    return say()


async def to_nobody(zed: Zed, foreign: str) -> AsyncIterator[tuple[str, str, int]]:
    """Runs that are none, and what nobody can read."""
    for run in ("ghost", BOARD_RUN, foreign):
        yield f"an end for {run}", run, await zed.says(run, zed.ends("total", claims={"total": 1}))
        yield f"a start for {run}", run, await zed.says(run, zed.ends("total", type="started"))
    started = b'{"type":"started","task":"total","attempt":1,"execution":"x"'
    garbage = {
        "nothing": b"",
        "no JSON": b"{",
        "not UTF-8": b'{"type":"\xff"}',
        "a list": b"[]",
        "a megabyte": b'{"type":"started","task":"' + b"x" * 1_000_000,
        "deep nesting": b'{"type":' * 50_000,
        "deep lists": b"[" * 500_000,
        "another type": b'{"type":"wake"}',
        "another version": started + b',"v":9}',
        "one field more": started + b',"more":1}',
        "an attempt below zero": started.replace(b"1", b"-1") + b"}",
        "half of a character": b'{"type":"ended","task":"\\ud800"}',
    }
    for what, data in garbage.items():
        for run in ("r1", "ghost"):
            yield what, run, await zed.says(run, data)
    misplaced = {"type": "effect_intended", "task": "t", "attempt": 1, "execution": "x", "tool": "t", "key": KEY}
    yield "an intent of another effect", "r1", await zed.says("r1", misplaced | {"round": 2}, f".{KEY}.1")


async def test_what_is_out_of_place_is_recorded_and_changes_nothing(both: list[Stage], figures: Figures) -> None:
    main, calm = both
    zed = await main.intruder()
    await calm.client.publish("t", GOALS[0], "elsewhere")
    for stage in both:
        await stage.publish(RUNS)
    for run, goal in zip(RUNS, GOALS, strict=True):
        await main.until(run, lambda state, goal=goal: state.in_flight >= min(1, len(goal["n"])))
    said: list[tuple[str, str, int]] = []
    for moment in ("while the work waits", "once the run has ended"):
        for run, goal in zip(RUNS, GOALS, strict=True):
            tasks = [f"each-{index}" for index in range(len(goal["n"]))] if len(goal["n"]) > 1 else ["each"]
            said += [one async for one in out_of_place(zed, run, tasks, "v.k0")]
        if moment == "while the work waits":
            said += [one async for one in to_nobody(zed, "elsewhere")]
            await asyncio.gather(main.work(), calm.work())
            for stage in both:
                for run in RUNS:
                    await stage.ended(run)

    await main.recorded(said[-1][1], said[-1][2])
    counted: Counter[str] = Counter()
    about: dict[int, list[e.Event]] = {}
    for run in (*RUNS, BOARD_RUN):
        for event in await main.events(run):
            about.setdefault(event.cause.seq, []).append(event)
    for what, run, seq in said:
        found = about.get(seq, [])
        assert [type(one) for one in found] in ([e.InputLate], [e.InputRejected]), f"{what} to {run}: {found}"
        assert found[0].author == ZED
        counted[type(found[0]).__name__] += 1
    assert counted["InputRejected"] == sum(run not in RUNS for _, run, _ in said) + 13
    for run in RUNS:
        mine, undisturbed = await main.ended(run), await calm.ended(run)
        assert mine.state.end == "DONE", (run, mine.state.reason, undisturbed.state.end)
        assert outcome_digest(mine.state) == outcome_digest(undisturbed.state), run
        assert (mine.state.usage, mine.state.effects) == (undisturbed.state.usage, {})
    assert (await verify(main.board)).findings == ()
    messages = [message async for batch in main.board.log.scan() for message in batch]
    assert {type(one) for one in compare(main.board.log.id, messages).values()} == {Equal}
    late, rejected = counted["InputLate"], counted["InputRejected"]
    figures.say(f"hostile specialist: {len(said)} inputs out of place: late {late}, rejected {rejected}, believed 0")


async def test_his_own_tasks_give_him_nothing_more(both: list[Stage]) -> None:
    """Of a task that is his he says what it does not ask for, or twice, or nothing."""
    main, _ = both
    zed = await main.intruder()
    await main.client.publish("bait", {"x": 1}, "b1")
    task, place = await zed.takes()
    await zed.acknowledges(place)  # without any work: nobody begins, and it is given out again
    task, place = await zed.takes()
    assert (task.run, task.task, task.attempt) == ("b1", "bait", 2)
    early = await zed.says("b1", zed.ends("bait", 3, {"bait": 1}))
    assert [type(one) for one in await main.recorded("b1", early)] == [e.InputLate]
    other = await zed.says("b1", zed.ends("bait", 2, {"bait": 1, "v.k0": 10**6}))
    assert _failure(await main.recorded("b1", other)) == "INVALID_OUTPUT"
    await zed.acknowledges(place)
    task, place = await zed.takes()
    assert (task.task, task.attempt) == ("bait", 3)
    wrong = await zed.says("b1", zed.ends("bait", 3, {"bait": "no number"}))
    assert _failure(await main.recorded("b1", wrong)) == "INVALID_OUTPUT"
    await zed.acknowledges(place)
    state = (await main.ended("b1")).state
    assert state.facts == {}
    assert state.end != "DONE"

    await main.client.publish("bait", {"x": 2}, "b2")
    task, place = await zed.takes()
    end = zed.ends("bait", 1, {"bait": 5})
    first = await zed.says("b2", end)  # before he says that he has begun
    state = (await main.ended("b2")).state
    again, different = await zed.says("b2", end), await zed.says("b2", zed.ends("bait", 1, {"bait": 6}))
    started = await zed.says("b2", zed.ends("bait") | {"type": "started"})
    assert [type(one) for one in await main.recorded("b2", different)] == [e.InputLate]
    events = await main.events("b2")
    assert sum(isinstance(one, e.TaskEnded) for one in events) == 1
    assert {one.cause.seq for one in events} >= {first, different}
    assert not {one.cause.seq for one in events if not isinstance(one, e.InputLate)} & {again, started}
    assert (await main.ended("b2")).state.facts["bait"].value == 5
    assert state.usage.input_tokens == 7


def _failure(events: list[e.Event]) -> str:
    return next((one.code for one in events if isinstance(one, e.AttemptFailed | e.TaskEnded)), "")


async def latencies(stage: Stage, runs: list[str]) -> tuple[list[float], list[int]]:
    """Seconds and messages of the log from goal to end, one run after the other."""
    took, between = list[float](), list[int]()
    for run in runs:
        began, head = time.monotonic(), await stage.board.log.head()
        await stage.client.publish("t", GOALS[0], run)
        ended = await stage.ended(run)
        took.append(time.monotonic() - began)
        between.append(ended.seq - head)
    return took, between


async def test_a_flood_costs_its_author_its_voice(both: list[Stage], figures: Figures) -> None:
    main, calm = both
    await asyncio.gather(main.work(), calm.work())
    zed = await main.intruder()
    await main.publish(["victim"])
    await main.ended("victim")
    runs = [f"f{number}" for number in range(8)]
    in_peace, _ = await latencies(calm, runs)
    over = asyncio.Event()

    async def flood() -> int:
        sent = 0
        while not over.is_set() or sent < FLOOD:
            for run, bodies in (
                ("victim", [zed.ends("total", claims={"total": 0}) for _ in range(100)]),
                ("ghost", [b"{"] * 50),
                (runs[sent // 200 % len(runs)], [zed.ends("each-0", claims={"v.k0": 9}) for _ in range(50)]),
            ):
                await zed.floods(run, bodies)
                sent += len(bodies)
            await zed.says("ghost", b"{")  # all of it is stored
            while await main.behind() > BACKLOG:  # noqa: ASYNC110 - no event tells it
                await asyncio.sleep(0.02)
        return sent

    flooding = asyncio.create_task(flood())
    try:
        flooded, between = await latencies(main, runs)
    finally:
        over.set()
        sent = await flooding
    last = await zed.says("victim", zed.ends("total"))
    await main.client.publish("t", GOALS[1], "after")  # what comes after all of it was decided after it
    await main.ended("after")

    p95, p95_flooded = quantiles(in_peace, n=20)[-1], quantiles(flooded, n=20)[-1]
    figures.say(
        f"flood of {sent} observations: a run takes {p95:.2f} s at p95 in peace, {p95_flooded:.2f} s while it goes on"
    )
    for run in ("victim", BOARD_RUN):
        kinds = Counter(type(one) for one in await main.events(run) if getattr(one, "author", "") == ZED)
        recorded = kinds[e.InputLate] + kinds[e.InputRejected]
        assert (recorded, kinds[e.AuthorMuted]) == (LATE_LIMIT, 1), f"{run}: {kinds}"
    assert not [one for one in await main.events("victim") if one.cause.seq == last]
    for run in runs:
        mine, undisturbed = await main.ended(run), await calm.ended(run)
        assert outcome_digest(mine.state) == outcome_digest(undisturbed.state), run
        assert mine.state.late.get(ZED, 0) <= LATE_LIMIT + 1
    assert max(between) < UNDER_WAY
