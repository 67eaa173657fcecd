"""`blackboard cancel`: a person ends a run."""

from blackboard.board import open_board
from blackboard.client import Client
from blackboard.find import find_run
from blackboard.options import BoardOptions


async def cancel_run(options: BoardOptions, text: str, reason: str) -> None:
    settings = options.settings()
    async with open_board(settings.nats, settings.board, name="cancel") as board:
        run = await find_run(board, text)
        seq = await Client(board, settings.name).cancel(run, reason)
    options.say({"run": run, "seq": seq}, f"cancel of {run} appended at {seq}")
