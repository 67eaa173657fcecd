"""A team whose specialists use tokens and a tool, as a file: `agents.py`."""

AGENTS = '''
import asyncio

from schemas.playbooks import Playbook, Step
from specialists.specialist import Context, Stop, Team, specialist


async def look_up(number: int) -> int:
    """Doubles it."""
    return 2 * number


@specialist("reader", offers="read", deadline_s=10, concurrency=2, tools=[look_up])
async def reader(item: dict[str, float], context: Context) -> float:
    """Reads one number; a multiple of five it reads at the second attempt only."""
    await asyncio.sleep(item["pause_s"])
    context.use(input_tokens=100 + int(item["number"]), output_tokens=7)
    if item["number"] % 5 == 0 and context.task.attempt == 1:
        raise Stop("TOOL_DOWN", "not today")
    return await context.tool(look_up, number=int(item["number"]))


@specialist("adder", offers="add", deadline_s=10)
async def adder(item: dict[str, list[float]], context: Context) -> float:
    """Adds numbers up."""
    context.use(input_tokens=3)
    return sum(item["numbers"])


PLAYBOOK = Playbook(
    team="agents",
    returns={"total": "facts.total"},
    parallel=16,
    steps=[
        Step(
            id="read",
            capability="read",
            for_each="input.numbers",
            input={"number": "item", "pause_s": "input.pause_s || `0`"},
            fact="read.n{index}",
            wait_s=20,
        ),
        Step(id="total", needs=["read"], capability="add", input={"numbers": "values(facts.read)"}),
    ],
)

TEAM = Team(PLAYBOOK, [reader, adder])
'''
