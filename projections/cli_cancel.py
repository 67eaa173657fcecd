"""`blackboard cancel`: a person ends a run."""

from blackboard.client import Client
from blackboard.find import find_run
from blackboard.options import BoardOptions
from schemas.access import Role


async def cancel_run(options: BoardOptions, text: str, reason: str) -> None:
    settings = options.settings()
    async with settings.open("cancel", Role.APPROVER) as board:
        run = await find_run(board, text)
        seq = await Client(board, settings.name).cancel(run, reason)
    options.say({"run": run, "seq": seq}, f"cancel of {run} appended at {seq}")
