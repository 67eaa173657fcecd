"""A team whose question expires soon."""

from pathlib import Path

EXPIRES_MS = 1500
SOURCE = f'''
from schemas.playbooks import Gate, Playbook, Step
from specialists.specialist import Team, specialist


@specialist("doer", offers="do", deadline_s=5)
async def doer(item: dict[str, str]) -> str:
    """Does it."""
    return "done"


PLAYBOOK = Playbook(team="brief", steps=[Step(id="do", capability="do", gate=Gate(expires_s={EXPIRES_MS / 1000}))])
TEAM = Team(PLAYBOOK, [doer])
'''


def write(folder: Path) -> str:
    """The path of the team's file, as a word of the command."""
    path = folder / "brief.py"
    path.write_text(SOURCE)
    return str(path)
