"""What guards a run is in its state: a supervisor that takes over goes on with delays, breakers and budgets."""

from schemas import events as e
from schemas.tasks import Item, Task
from tests.supervisor.scenario import goal, offer, step, teach
from tests.supervisor.table import Stop, Table, board_in_memory

RUN = "r1"


async def happened(table: Table, kind: type[e.Event]) -> list[e.Event]:
    return [event for event in await table.events(RUN) if isinstance(event, kind)]


async def test_delay_before_the_next_attempt_survives_its_supervisor() -> None:
    """Killed while the task waits for its next attempt; the next supervisor makes it, once."""
    contract = offer("w", "work", backoff_s=0.4)
    taught = teach(step("a", attempts=2), returns={"a": "facts.a"})
    attempts: list[int] = []

    def answer(task: Task, item: Item) -> int:
        attempts.append(task.attempt)
        if task.attempt == 1:
            raise Stop("TOOL_DOWN")
        return task.attempt

    async with board_in_memory(contract, taught) as table:
        first = table.supervise()
        table.work("w", answer)
        await table.say(goal())

        async def delayed() -> bool:
            return bool(await happened(table, e.TaskDelayed))

        await table.until(delayed)
        await first.kill()
        assert attempts == [1]
        table.supervise()
        (folded,) = await table.ended(RUN)
        assert (folded.state.result, attempts) == ({"a": 2}, [1, 2])
        (delay,) = await happened(table, e.TaskDelayed)
        assert isinstance(delay, e.TaskDelayed)
        assert 200 <= delay.delay_ms < 400
        await table.check()


async def test_breaker_and_budget_hold_whoever_decides() -> None:
    """`v` fails always, `w` never; each attempt may use one token. Supervisors are killed one after the other, after
    every few events."""
    offers = [offer(name, "work", attempts=1, budget={"tokens": 1}) for name in ("v", "w")]
    each = step("a", for_each="input.n", fact="a.k{item}", missing="allow")
    taught = teach(each, parallel=2, breaker=3, budget={"tokens": 80}, returns={"a": "facts.a"})

    def answer(task: Task, item: Item) -> str:
        if task.specialist == "v":
            raise Stop("TOOL_DOWN")
        return task.specialist

    async with board_in_memory(*offers, taught) as table:
        supervising = table.supervise()
        for name in ("v", "w"):
            table.work(name, answer)
        await table.say(goal({"n": list(range(80))}))
        kills, version = 0, 0
        while not (state := (await table.run(RUN)).state).end:
            if state.version >= version + 8:
                version = state.version
                await supervising.kill()
                supervising = table.supervise()
                kills += 1

            async def further(since: int = state.version) -> bool:
                return (await table.run(RUN)).state.version > since

            await table.until(further)
        dispatched = [event for event in await happened(table, e.TaskDispatched) if isinstance(event, e.TaskDispatched)]
        opened = [event for event in await happened(table, e.BreakerOpened) if isinstance(event, e.BreakerOpened)]
        assert [(event.specialist, event.failures) for event in opened] == [("v", 3)]
        assert sum(event.specialist == "v" for event in dispatched) in {3, 4}, "one was in flight when it opened"
        assert state.charged.tokens + state.reserved.tokens <= 80
        assert (state.end, len(state.facts) + len(state.missing)) == ("DEGRADED", 80)
        assert kills >= 2
        await table.check()
