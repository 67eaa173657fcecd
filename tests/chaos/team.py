"""The team that is disturbed: three voices on each number, a policy that ignores who came first, then a sum.

Deterministic: `exact` declines every third number, so `rough` has the fact there; `shaky` fails in its first attempt at
every seventh, so attempts are part of the history; every twentieth takes it longer than a second, so `started` is too.
"""

import asyncio

from schemas.playbooks import MergePolicy, Playbook, Step
from specialists.specialist import Context, Stop, Team, specialist

VOICES = 3
PARALLEL = 24
"""Tasks in flight of one run at most."""
LONG_S = 1.2
"""More than the second after which a worker says that it goes on."""
DEADLINE_S = 60.0
"""So long that an attempt survives several deaths of its worker: each costs the time until it is delivered again."""


async def work(number: int) -> None:
    await asyncio.sleep(0.002 + number % 5 / 1000)


@specialist("exact", offers="square", deadline_s=DEADLINE_S, concurrency=8)
async def exact(item: dict[str, int]) -> int:
    """The square; declines every third number."""
    number = item["number"]
    await work(number)
    if number % 3 == 0:
        raise Stop("LOW_CONFIDENCE", f"{number} is left to others")
    return number**2


@specialist("rough", offers="square", deadline_s=DEADLINE_S, concurrency=8)
async def rough(item: dict[str, int]) -> int:
    """The square, to the ten below."""
    await work(item["number"])
    return item["number"] ** 2 // 10 * 10


@specialist("shaky", offers="square", deadline_s=DEADLINE_S, concurrency=8)
async def shaky(item: dict[str, int], context: Context) -> int:
    """The square, to the hundred below; now and then not at once."""
    number = item["number"]
    await (asyncio.sleep(LONG_S) if number % 20 == 10 else work(number))
    if number % 7 == 0 and context.task.attempt == 1:
        raise Stop("TOOL_DOWN", "its first attempt fails")
    return number**2 // 100 * 100


@specialist("adder", offers="add", deadline_s=DEADLINE_S)
async def adder(item: dict[str, list[int]]) -> int:
    """Adds numbers up."""
    return sum(item["numbers"])


NUMBER = {"type": "integer"}

TEAM = Team(
    Playbook(
        team="chaos",
        input={
            "type": "object",
            "required": ["numbers"],
            "properties": {"numbers": {"type": "array", "items": NUMBER}},
        },
        result={"type": "object", "required": ["total"], "properties": {"total": NUMBER}},
        returns={"total": "facts.total"},
        parallel=PARALLEL,
        steps=[
            Step(
                id="square",
                capability="square",
                specialist="all",
                for_each="input.numbers",
                tasks=2000,
                input={"number": "item"},
                fact="square.n{index}",
                merge=MergePolicy(policy="priority", order=["exact", "rough"]),
                silent=["LOW_CONFIDENCE"],
            ),
            Step(id="total", needs=["square"], capability="add", input={"numbers": "values(facts.square)"}),
        ],
    ),
    [exact, rough, shaky, adder],
)
