"""Which run somebody means: its id, the beginning of its id, or `@last`."""

import re
from collections.abc import Sequence

from blackboard.board import Board
from schemas.subjects import BOARD_RUN, SUPERVISOR

LAST = "@last"
"""The run that was published last; child runs do not count."""
SHOWN = 10
_START = re.compile(r"[A-Za-z0-9_-]{1,64}")


class NoSuchRun(LookupError):
    """No run has such an id."""

    exit_code = 1


class AmbiguousRun(LookupError):
    """Several runs have such an id; `candidates` are all of them, the newest last."""

    exit_code = 1

    def __init__(self, text: str, candidates: Sequence[str]) -> None:
        shown = ", ".join(candidates[-SHOWN:])
        more = f" and {len(candidates) - SHOWN} older ones" if len(candidates) > SHOWN else ""
        super().__init__(f"{text!r} may be {shown}{more}; give more of the id")
        self.candidates = tuple(candidates)


async def find_run(board: Board, text: str) -> str:
    """The id of the one run that `text` means. Raises NoSuchRun, AmbiguousRun, LogError.

    A run exists from its goal on, whether or not the goal was accepted.
    """
    if text == BOARD_RUN:
        return text
    if text == LAST:
        return await _last(board)
    if not _START.fullmatch(text):
        raise NoSuchRun(f"{text[:80]!r} cannot be the id of a run, nor its beginning; `blackboard runs` lists them")
    if await board.log.last(board.subjects.goal("*", text)) is not None:
        return text
    candidates = [run for _, run in await _goals(board) if run.startswith(text)]
    if not candidates:
        raise NoSuchRun(f"no run on this board begins with {text!r}; `blackboard runs` lists them")
    if len(candidates) > 1:
        raise AmbiguousRun(text, candidates)
    return candidates[0]


async def _last(board: Board) -> str:
    newest = await board.log.last(board.subjects.every("goal"))
    address = board.subjects.address(newest.subject) if newest else None
    if address and address.author != SUPERVISOR:
        return address.run
    published = [run for author, run in await _goals(board) if author != SUPERVISOR]
    if not published:
        raise NoSuchRun("no run was published on this board yet; `blackboard publish` does it")
    return published[-1]


async def _goals(board: Board) -> list[tuple[str, str]]:
    """(author, run) of the goals on the board, each run once, the newest last."""
    found: dict[str, str] = {}
    async for message in board.log.last_per_subject(board.subjects.every("goal")):
        if address := board.subjects.address(message.subject):
            found.pop(address.run, None)
            found[address.run] = address.author
    return [(author, run) for run, author in found.items()]
