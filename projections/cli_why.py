"""`blackboard why`: the provenance of one fact, for people and as JSON."""

from typing import Any

import click
import msgspec

from blackboard.find import find_run
from blackboard.options import BoardOptions
from projections.cli_text import clean, dollars, value, when
from projections.provenance import ANSWER, EXPRESSION, Attempt, DoneTo, Provenance, Voice, why
from projections.rebuild import history
from schemas.bids import Bid
from schemas.plans import BIDS

LONG = 400
"""Characters of one value."""


_NOBODY_CLAIMED = {ANSWER: "an answer", EXPRESSION: "an expression"}


class _Ranked(Bid, frozen=True, kw_only=True):
    """A row of a ranking of bids."""

    by: str
    score: float


async def explain_fact(options: BoardOptions, text: str, key: str) -> None:
    settings = options.settings()
    async with settings.open("why") as board:
        folded, events = await history(board, await find_run(board, text))
    found = why(folded.state, events, key)
    if options.as_json:
        options.say(msgspec.to_builtins(found))
    else:
        click.echo("\n".join(map(clean, _lines(found))))


def _lines(found: Provenance) -> list[str]:
    lines = [
        f"{found.key} has no value: {found.code} {found.message}"
        if found.code
        else f"{found.key} = {value(found.value, LONG)}"
    ]
    lines += _decided(found)
    lines += map(_effect, found.effects)
    if found.bids:
        lines += _bids(found.bids, found.granted)
    for other in found.others:
        when_ = "before" if other.version < found.version else "later"
        what = f"no value: {other.code} {other.message}" if other.code else value(other.value, LONG)
        lines.append(f"  {when_}, at event {other.version}: {what}")
        lines += [f"  {line}" for line in _decided(other)]
    return lines


def _effect(one: DoneTo) -> str:
    known = {None: "nobody knows whether it was done", True: "done", False: "not done"}[one.done]
    how = {"probe": ", as the tool reads back", "person": ", as a person said"}.get(one.source, "")
    undone = ", undone since" if one.undone else ""
    return (
        f"  effect {one.tool}({value(one.arguments, LONG)}), event {one.version}: {known}{how}{undone}; key {one.key}"
    )


def _decided(found: Provenance) -> list[str]:
    """By what and whom one decision was made."""
    where = f"event {found.version} of run {found.run}, {when(found.at)} UTC, step {found.step}"
    lines = [f"  decided by {_NOBODY_CLAIMED.get(found.policy) or _policy(found)}, {where}"]
    if found.replaces:
        lines.append(f"  it took the place of version {found.replaces}")
    if found.stale:
        lines.append(f"  stale: there were newer values of {', '.join(found.stale)} than the claim knows of")
    if found.taint:
        lines.append(f"  it may rest on content from outside: {', '.join(found.taint)}")
    if found.conflict:
        conflict = found.conflict
        asked = f"{conflict.specialist} was asked to reconcile them, in task {conflict.task}"
        lines.append(f"  claims differed, at event {conflict.version}: {asked}")
    if found.expression:
        lines.append(f"  it is {found.expression}")
    if found.answer:
        answer = found.answer
        lines.append(f"  answered by {answer.by} at gate {answer.gate}, event {answer.version}, digest {answer.digest}")
        lines.append(f"    on sequence {answer.said.seq}, sha256 {answer.said.sha256}")
    lost = "bid of" if found.policy == BIDS else "lost"
    if found.winner:
        lines += _voice("claimed by", found.winner)
    for loser in found.losers:
        lines += _voice(lost if loser.reason else "agreed", loser)
    for voice in found.declined:
        lines += _voice("declined", voice)
    return lines


def _policy(found: Provenance) -> str:
    terms = [" > ".join(found.order)] if found.order else []
    terms += [f"{found.merge.n} tasks"] if found.merge.n else []
    terms += [value(found.merge.arguments, LONG)] if found.merge.arguments else []
    return f"{found.policy} version {found.policy_version}" + (f" ({', '.join(terms)})" if terms else "")


def _attempt(one: Attempt) -> str:
    line = f"    before, attempt {one.attempt} of {one.specialist}, at event {one.version}: "
    if one.behind:
        return f"{line}given out again, {', '.join(one.behind)} had changed"
    if one.refused:
        return f"{line}the plan {value(one.value, LONG)} was refused: {'; '.join(one.refused)}"
    how = f"{one.code}: {one.message}".rstrip(": ")
    return f"{line}{how}; {'handed on' if one.code == 'HANDED_OFF' else 'given'} to {one.to}" if one.to else line + how


def _bids(bids: Provenance, granted: str) -> list[str]:
    ranking = [row for row in bids.value if isinstance(row, dict)] if isinstance(bids.value, list) else []
    said = f"the {len(ranking)} that can do it, best first" if ranking else "nobody who can do it"
    lines = [f"  open call, event {bids.version}: {said}"]
    ranked = {str(row.get("by")) for row in ranking}
    lines += [f"    {_bid(row)}{', granted' if row.get('by') == granted else ''}" for row in ranking]
    lines += [f"    {one.specialist}: {one.reason}" for one in bids.losers if one.specialist not in ranked]
    return lines + [f"    {one.specialist} did not bid: {one.code} {one.message}".rstrip() for one in bids.declined]


def _bid(row: dict[str, Any]) -> str:
    try:
        bid = msgspec.convert(row, _Ranked)
    except msgspec.ValidationError:
        return value(row, LONG)
    terms = f"confidence {bid.confidence:g}, ${dollars(bid.micro_usd)}, {bid.seconds:g} s"
    return f"{bid.by}: score {bid.score:g} ({terms})"


def _voice(how: str, voice: Voice) -> list[str]:
    said = f"sequence {voice.said.seq}, sha256 {voice.said.sha256}" if voice.said else "no input"
    if not voice.claimed:
        what = f"{voice.code}: {voice.message}".rstrip(": ")
    elif how in ("lost", "bid of"):
        what = f"{value(voice.value, LONG)}: {voice.reason}"
    else:
        what = "" if voice.confidence is None else f"confidence {voice.confidence:g}"
    child = f" (run {voice.child})" if voice.child else ""
    line = f"  {how} {voice.specialist}, task {voice.task} attempt {voice.attempt}{child}"
    if voice.read_version:
        said += f"; it saw version {voice.read_version} of the run"
    return [f"{line}: {what}" if what else line, f"    on {said}", *map(_attempt, voice.before)]
