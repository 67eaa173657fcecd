"""`blackboard why`: the provenance of one fact, for people and as JSON."""

import click
import msgspec

from blackboard.board import open_board
from blackboard.find import find_run
from blackboard.options import BoardOptions
from projections.cli_text import clean, value, when
from projections.provenance import Provenance, Voice, why
from projections.rebuild import history

LONG = 400
"""Characters of one value."""


async def explain_fact(options: BoardOptions, text: str, key: str) -> None:
    settings = options.settings()
    async with open_board(settings.nats, settings.board, name="why") as board:
        folded, events = await history(board, await find_run(board, text))
    found = why(folded.state, events, key)
    if options.as_json:
        options.say(msgspec.to_builtins(found))
    else:
        click.echo("\n".join(map(clean, _lines(found))))


def _lines(found: Provenance) -> list[str]:
    order = f" ({' > '.join(found.order)})" if found.order else ""
    where = f"event {found.version} of run {found.run}, {when(found.at)} UTC, step {found.step}"
    if found.winner is None:
        head = [
            f"{found.key} has no value: {found.code} {found.message}",
            f"  decided by {found.policy}{order}, {where}",
        ]
    else:
        head = [f"{found.key} = {value(found.value, LONG)}", f"  decided by {found.policy}{order}, {where}"]
        head += _voice("claimed by", found.winner)
    for loser in found.losers:
        head += _voice("lost" if loser.reason else "agreed", loser)
    for voice in found.declined:
        head += _voice("declined", voice)
    return head


def _voice(how: str, voice: Voice) -> list[str]:
    said = f"sequence {voice.said.seq}, sha256 {voice.said.sha256}" if voice.said else "no input"
    if not voice.claimed:
        what = f"{voice.code}: {voice.message}".rstrip(": ")
    elif how == "lost":
        what = f"{value(voice.value, LONG)}: {voice.reason}"
    else:
        what = "" if voice.confidence is None else f"confidence {voice.confidence:g}"
    line = f"  {how} {voice.specialist}, task {voice.task} attempt {voice.attempt}"
    return [f"{line}: {what}" if what else line, f"    on {said}; it saw version {voice.read_version} of the run"]
