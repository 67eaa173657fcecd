"""Every case, every seed, a crash at every await of the effect path: what the till's ledger says afterwards."""

import logging
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from projections.canonical import State
from schemas.effects import asked_about
from tests.effects.worlds import DISTURBED, Case, Lived, live

CASES = (
    Case("with a probe"),
    Case("without a probe, people look it up", probe=False),
    Case("without a probe, nobody answers", probe=False, answers="nobody"),
    Case("without a probe, the till keeps keys, people err", probe=False, keeps_keys=True, answers="wrong"),
    Case("the answer is lost, with a probe", loses=1),
    Case("the answer is lost, without a probe", probe=False, loses=1),
    Case("undone, with a probe", undo=True, fails=True),
    Case("undone, without a probe", probe=False, undo=True, fails=True),
    Case("undone, and the answers are lost", undo=True, fails=True, loses=2),
    Case("paused beyond the lease, with a probe", disturb="pause", workers=2),
    Case("paused beyond the lease, the till keeps keys", keeps_keys=True, disturb="pause", workers=2),
    Case("cancelled at every moment", undo=True, disturb="cancel"),
    Case("two workers have the task at once", faults=DISTURBED, disturb="race", workers=2),
    Case("all that may go wrong, undone", undo=True, fails=True, faults=DISTURBED, disturb="race", workers=2),
    Case("all that may go wrong, cancelled", undo=True, faults=DISTURBED, disturb="cancel", workers=2),
)
MOMENTS = 24
"""Moments at which a run is cancelled, over the time that it would take."""


@dataclass
class Sums:
    """What all the worlds come to."""

    runs: int = 0
    crashes: int = 0
    doubled: int = 0
    lost: int = 0
    broken: list[str] = field(default_factory=list)
    ends: Counter[str] = field(default_factory=Counter)

    def add(self, lived: Lived) -> None:
        state, service = lived.history.folded.state, lived.service
        self.runs += 1
        self.crashes += lived.moments.made
        self.ends[state.end or state.phase] += 1
        charges = service.charges
        if charges > 1 or service.balance < 0 or sum(amount < 0 for _, amount in service.entries) > 1:
            self.doubled += 1
            self.broken.append(f"{lived.where}: doubled: {service.entries}")
        elif problem := _lost(lived.case, state, service.balance):
            self.lost += 1
            self.broken.append(f"{lived.where}: lost: {problem}: {service.entries}")
        broken = [str(lived.broken)] if lived.broken and not _asks(state) else []
        problems = [*lived.happened.problems, *broken]
        self.broken += [f"{lived.where}: {one}" for one in problems]

    def join(self, other: "Sums") -> None:
        self.runs, self.crashes = self.runs + other.runs, self.crashes + other.crashes
        self.doubled, self.lost = self.doubled + other.doubled, self.lost + other.lost
        self.broken += other.broken
        self.ends += other.ends

    @property
    def line(self) -> str:
        return f"effects: {self.crashes} crashes, {self.runs} runs, {self.doubled} doubled, {self.lost} lost"


def _lost(case: Case, state: State, balance: int) -> str:
    """How what the run says differs from what the till's ledger says."""
    if not state.end:
        return "" if _asks(state) and balance in (0, 5) else "the run has not ended, and asks nobody"
    unsure = any(effect.unknown for effect in state.effects.values())
    if state.end == "DONE":
        return "" if balance == 5 and not unsure else "it is DONE"
    if case.undo:
        return "" if balance == 0 and not unsure else f"it ended {state.end}: {state.reason}"
    known = sum(effect.done is not None for effect in state.effects.values())
    return "" if balance == 5 * known and not unsure else f"it ended {state.end}: {state.reason}"


def _asks(state: State) -> bool:
    """Whether the run waits for somebody to say whether an effect was done."""
    return not state.end and any(asked_about(gate.action) for gate in state.open_gates.values())


def lives(case: Case, seed: int, every: int = 1) -> Iterator[Lived]:
    """One undisturbed world, then one for each moment at which it can be disturbed (or `every` so manieth), then some
    with two crashes."""
    calm = live(case, seed)
    yield calm
    if case.disturb == "cancel":
        for moment in range(0, MOMENTS, every):
            yield live(case, seed, cancel_after_s=(calm.happened.duration_s + 1) * moment / MOMENTS)
        return
    for at in range(1, calm.moments.count + 1, every):
        yield live(case, seed, at)
        if case.disturb == "crash" and at % 2:
            yield live(case, seed, at, at + 1 + (seed + at) % 7)


def crash_everywhere(seeds: Iterable[int], cases: Iterable[Case] = CASES, every: int = 1) -> Sums:
    sums = Sums()
    for case in cases:
        for seed in seeds:
            for lived in lives(case, seed, every):
                sums.add(lived)
    return sums


def job(chosen: tuple[int, int]) -> tuple[int, Sums]:
    """What comes of a case, by its number, and a seed, in a process of its own."""
    logging.disable(logging.CRITICAL)  # what is made to go wrong is said thousands of times
    number, seed = chosen
    return number, crash_everywhere([seed], [CASES[number]])
