"""Teams for end-to-end tests, as a person would write them into a file: `write` puts one into a folder.

squares: each number of a list is squared by a task of its own, then a task adds them up. `pause_s` is how long each
takes, so that there is time to disturb them; more tasks are in flight than one worker takes, so some lie in the queue.
killer: its task kills its worker.
"""

from pathlib import Path

SQUARES = '''
import asyncio

from schemas.playbooks import Playbook, Step
from specialists.specialist import Context, Stop, Team, specialist


@specialist("squarer", offers="square", deadline_s=10, concurrency=8)
async def squarer(item: dict[str, float]) -> float:
    """Squares one number."""
    await asyncio.sleep(item.get("pause_s") or 0)
    if item["number"] < 0:
        raise Stop("LOW_CONFIDENCE", "negative numbers are not liked here")
    return item["number"] ** 2


@specialist("adder", offers="add", deadline_s=10)
async def adder(item: dict[str, list[float]]) -> float:
    """Adds numbers up."""
    return sum(item["numbers"])


NUMBER = {"type": "number"}
INPUT = {"numbers": {"type": "array", "items": NUMBER}, "pause_s": NUMBER}

PLAYBOOK = Playbook(
    team="squares",
    input={"type": "object", "required": ["numbers"], "properties": INPUT},
    result={"type": "object", "required": ["total"], "properties": {"total": NUMBER}},
    returns={"total": "facts.total"},
    parallel=16,
    steps=[
        Step(
            id="square",
            capability="square",
            for_each="input.numbers",
            tasks=2000,
            input={"number": "item", "pause_s": "input.pause_s || `0`"},
            fact="square.n{index}",
            missing="allow",
            silent=["LOW_CONFIDENCE"],
            wait_s=60,
        ),
        Step(id="total", needs=["square"], capability="add", input={"numbers": "values(facts.square)"}),
    ],
)

TEAM = Team(PLAYBOOK, [squarer, adder])
'''

KILLER = '''
import os

from schemas.playbooks import Playbook, Step
from specialists.specialist import Team, specialist


@specialist("killer", offers="kill", deadline_s=1, attempts=1)
async def killer(item: dict[str, str]) -> str:
    """Takes its worker along."""
    os.kill(os.getpid(), 9)
    return "never"


PLAYBOOK = Playbook(team="killers", steps=[Step(id="kill", capability="kill", wait_s=1, deadline_s=1, attempts=1)])

TEAM = Team(PLAYBOOK, [killer])
'''


def write(folder: Path, name: str, source: str) -> str:
    """The path of the file, as a word of the command."""
    path = folder / f"{name}.py"
    path.write_text(source)
    return str(path)
