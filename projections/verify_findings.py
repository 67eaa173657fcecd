"""What verifying a log brings to light: each thing that is wrong, once, at the event that it is about.

Pure. One cause shows in many places: a message that is missing breaks the chain of its run. So what follows from a
finding does not become another one, but says of it, where that is not known, which event it is about.
"""

from msgspec import Struct
from msgspec.structs import replace

from projections.audit import Violation

LIMIT = 100
"""Findings that are kept; more are counted."""


class Place(Struct, frozen=True):
    """What was signed at a sequence: the subject, its run, and for a fact message the numbers of its events."""

    seq: int
    subject: str
    run: str
    first: int = 0
    last: int = 0


class Finding(Struct, frozen=True, kw_only=True):
    """Something that is wrong: at sequence `seq` of the log, and up to `upto` where it is more than one message. `run`
    and `version` name the event that it is about, where it is known to be about one. `missing`: nothing is there.
    `signed`: what was there stands in a head."""

    problem: str
    seq: int
    upto: int = 0
    run: str = ""
    version: int = 0
    missing: bool = False
    signed: bool = False

    def covers(self, seq: int) -> bool:
        return self.seq <= seq <= max(self.seq, self.upto)


class Findings:
    """What is wrong, as it comes to light. `head`: the last sequence of the log."""

    def __init__(self, head: int) -> None:
        self.listed: list[Finding] = []
        self.more = 0
        self._head = head
        self._gap: int | None = None
        self._lost_runs: set[str] = set()

    def add(self, finding: Finding) -> bool:
        """Whether there was room for it."""
        if len(self.listed) < LIMIT:
            self.listed.append(finding)
            return True
        self.more += 1
        return False

    def in_order(self) -> tuple[Finding, ...]:
        return tuple(sorted(self.listed, key=lambda one: (one.seq, one.run, one.version)))

    def changed(self, place: Place, subject: str) -> None:
        """At `place` lies another message than the signed one, on `subject`."""
        problem = "the message is not the one that the notary signed there"
        if place.subject != subject:
            problem += f": that was on {place.subject}, this is on {subject}"
        self.add(Finding(problem=problem, seq=place.seq, run=place.run, version=place.first, signed=True))

    def gap(self, first: int, last: int) -> None:
        """Nothing is there, and nobody signed what was."""
        if self._extended(first, last):
            return
        self._begin(Finding(problem=self._missing(first, last), seq=first, upto=last, missing=True))

    def lost(self, place: Place) -> None:
        """Nothing is there, and `place` was signed. Of each run that has events in a gap the first is named."""
        if not self._extended(place.seq, place.seq):
            problem = self._missing(place.seq, place.seq)
            self._begin(_lost(place, problem))
        elif place.first and place.run not in self._lost_runs:
            events = f"events {place.first} to {place.last}" if place.last > place.first else f"event {place.first}"
            self.add(_lost(place, f"the message with {events} of the run is among those that are missing"))
        if place.first:
            self._lost_runs.add(place.run)

    def _missing(self, first: int, last: int) -> str:
        what = f"sequences {first} to {last} are missing" if last > first else "the message is missing"
        if first > self._head:
            return f"{what}: the log ends at sequence {self._head}, and its end, which was signed, was cut off"
        return f"{what}: the log does not give back what was stored there"

    def _begin(self, finding: Finding) -> None:
        self._gap = len(self.listed) - 1 if self.add(finding) else None
        self._lost_runs = set()

    def _extended(self, first: int, last: int) -> bool:
        """Whether the gap that came last goes on there. One of the log's end does not go on one before it."""
        if self._gap is None or (gap := self.listed[self._gap]).upto != first - 1 or first == self._head + 1:
            return False
        self.listed[self._gap] = replace(gap, upto=last, problem=self._missing(gap.seq, last))
        return True

    def passed_over(self, violation: Violation) -> None:
        """A message on the subject of a run is no fact message of it; the run goes on behind it."""
        if not self.about(violation.seq, violation.run, violation.version):
            self.add(
                Finding(problem=violation.problem, seq=violation.seq, run=violation.run, version=violation.version)
            )

    def violated(self, violation: Violation, before: int) -> None:
        """The run of a violation was as it should be up to the message at `before`."""
        run, version, problem = violation.run, violation.version, violation.problem
        if self.about(violation.cause, run, version) or self.about(violation.seq, run, version):
            return
        if any(one.run == run and one.version for one in self.listed):
            return
        gaps = [one for one in self.listed if one.missing]
        if any(one.covers(violation.cause) for one in gaps):
            self.add(Finding(problem=problem, seq=violation.cause, run=run, version=version, missing=True))
            return
        between = [one for one in gaps if before < one.seq and one.upto < violation.seq]
        if len(between) == 1 and not between[0].signed and self.about(between[0].seq, run, version):
            return
        self.add(Finding(problem=problem, seq=violation.seq, run=run, version=version))

    def about(self, seq: int, run: str, version: int) -> bool:
        """Whether there is a finding at `seq`; it is about that event unless it is known which one."""
        for at, finding in enumerate(self.listed):
            if finding.seq == seq:
                if not finding.version:
                    self.listed[at] = replace(finding, run=run, version=version)
                return True
        return False


def _lost(place: Place, problem: str) -> Finding:
    return Finding(
        problem=problem,
        seq=place.seq,
        upto=place.seq,
        run=place.run,
        version=place.first,
        missing=True,
        signed=True,
    )
