"""Trying attacks on a copy of a recorded board each, and judging what `verify` says of them."""

import shutil
from pathlib import Path

from projections.audit import recorded as events_of
from projections.verify import Verdict
from projections.verify_findings import LIMIT, Finding
from tests.tamper.attacks import Attack
from tests.tamper.live import LiveAttack
from tests.tamper.recorded import WITNESS, Place, Recorded, verdict_on


async def tried(recorded: Recorded, attack: Attack, copy: Path, witnessed: bool = True) -> Verdict:
    try:
        async with recorded.restored(copy, attack.do) as url:
            return await verdict_on(url, recorded.folder / WITNESS if witnessed else None)
    finally:
        shutil.rmtree(copy)


async def tried_live(recorded: Recorded, attack: LiveAttack, copy: Path) -> Verdict:
    try:
        async with recorded.restored(copy) as url:
            await attack.on(url)
            return await verdict_on(url, recorded.folder / WITNESS)
    finally:
        shutil.rmtree(copy)


def unnamed(recorded: Recorded, attack: Attack, verdict: Verdict) -> str:
    """Why an attack is not named as it should be: every message that it touched, no other one, and the first one as the
    event that it is. Empty when it is."""
    if problem := _not_all(attack.changed, verdict):
        return problem
    first, wanted = attack.changed[0], list(attack.places)
    if verdict.findings[0].missing and _cited_by_what_is_gone(recorded, attack):
        wanted.append(Place(recorded.run_of(first), 0))
    here = [Place(one.run, one.version) for one in verdict.findings if one.covers(first)]
    return "" if any(place in wanted for place in here) else f"sequence {first} is {here}, not {wanted}"


def unnamed_live(attack: LiveAttack, verdict: Verdict) -> str:
    if problem := _not_all(attack.changed, verdict, attack.anew):
        return problem
    return "" if any(attack.says in one.problem for one in verdict.findings) else f"nobody says {attack.says!r}"


def _not_all(changed: tuple[int, ...], verdict: Verdict, anew: bool = False) -> str:
    passed_over = [seq for seq in changed if not any(one.covers(seq) for one in verdict.findings)]
    if passed_over and len(verdict.findings) + verdict.more < LIMIT:
        return f"{passed_over} are not named"
    beside = [] if anew else [one for one in verdict.findings if not _touches(one, changed)]
    return f"{beside} are named, and were not touched" if beside else ""


def _touches(finding: Finding, changed: tuple[int, ...]) -> bool:
    return any(finding.covers(seq) for seq in changed)


def _cited_by_what_is_gone(recorded: Recorded, attack: Attack) -> bool:
    """Whether nothing is left that says which event the first touched message brought about."""
    place = recorded.places[attack.changed[0]]
    for message in recorded.messages:
        of_the_run = message.subject == f"bb.main.fact.{place.run}"
        if of_the_run and any(item.version == place.version for item in events_of(message, recorded.log_id, place.run)):
            return message.seq in attack.changed
    return not place.version
