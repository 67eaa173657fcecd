"""Which of several supervisors is active: what one concludes from announcements, its own among them, and from time.

Pure. No clock and no I/O: whoever calls says what was heard, and what time it is in seconds that never go back.

Correctness does not rest on it: events are appended with the expected sequence of their run, so two that are active
for a moment write one history. It must not flap, though, and must never leave a board with nobody active:

- Silence makes active. Who stands by becomes active when no active one was heard for SILENCE_S, one after the other.
- The higher claim stays. Of two active ones that leave the same runs alone, the one with the newer rules, then the
  higher term, then the lower name stays; no claim changes while somebody is active, so this is settled once. A new term
  is one above all that were heard: who was paused or cut off comes back with an older one.
- Who does not hear itself does not know what others do. An announcement that comes back proves, for the moment at which
  it was sent, that others could hear it. Without such a proof for SILENCE_S (a pause, a lost connection) an active one
  stands by and listens as if it had just come.
- One that leaves runs alone (rules too old, a merge policy that it lacks) keeps nobody standing by who may decide them.
  Both are then active until one is there that leaves no more alone than the other.
- Who never hears itself (it may not announce, say) is active without a claim after DEAF_S: announcements save work, and
  do not stand in the way of it.
"""

from msgspec import Struct

from schemas.announcements import Announcement, Role

BEAT_S = 0.2
"""Seconds between two announcements."""
SILENCE_S = 1.0
"""Seconds without an announcement after which an active supervisor counts as gone."""
START_S = 0.4
"""Seconds after which one that has heard nobody at all takes it that it is alone."""
STAGGER_S = 0.25
"""Seconds between one that stands by becoming active and the next one."""
DEAF_S = 5.0
"""Seconds after which one that does not hear itself is active all the same."""


class _Other(Struct, frozen=True):
    said: Announcement
    at_s: float


class Standing:
    """How one supervisor stands. `name` and `rules` as in its announcements; `left` are the runs that it leaves alone,
    which only grow. `role` is "starting" until `ready`."""

    def __init__(self, name: str, rules: int, now_s: float) -> None:
        self.name, self.rules = name, rules
        self.left: frozenset[str] = frozenset()
        self.role: Role = "starting"
        self.term = 0
        self._highest_term = 0
        self._beat = 0
        self._sent_s: dict[int, float] = {}
        self._heard_itself_s: float | None = None
        """When the newest of its own announcements that came back was sent."""
        self._listens_since_s: float | None = None
        self._deaf_since_s = now_s
        self._others: dict[str, _Other] = {}
        self._company = False
        self._kept_s: float | None = None
        """When an active one was last heard that lets it stand by."""
        self._is_ready = False

    @property
    def active(self) -> bool:
        return self.role == "active"

    def ready(self) -> None:
        """It has read what there is, and may become active."""
        self._is_ready = True
        if self.role == "starting":
            self.role = "standby"

    # -- announcing --

    def beat(self, now_s: float) -> tuple[int, int]:
        """An announcement is sent now; its number and term."""
        self._beat += 1
        self._sent_s[self._beat] = now_s
        self._sent_s = {beat: at for beat, at in self._sent_s.items() if now_s - at < SILENCE_S}
        return self._beat, self.term if self.active else self._highest_term

    # -- hearing --

    def heard(self, said: Announcement, now_s: float) -> None:
        """An announcement came, its own ones too."""
        if said.name == self.name:
            self._heard_itself(said.beat, now_s)
            return
        before = self._others.get(said.name)
        self._highest_term = max(self._highest_term, said.term)
        if said.role == "leaving":
            self._others.pop(said.name, None)
            if before and before.said.role == "active" and self._kept_s is not None:
                self._kept_s = min(self._kept_s, now_s - SILENCE_S)  # no need to wait for its silence
            return
        self._others[said.name] = _Other(said, now_s)
        self._company = True
        if said.role == "active" and _within(said.leaves, self.left):
            self._heard_active(said, now_s)

    def _heard_active(self, said: Announcement, now_s: float) -> None:
        """An active one that leaves nothing alone which this one would decide."""
        if self.active and _within(self.left, said.leaves) and not self._yields_to(said):
            return  # it will step back itself, as soon as it hears this one
        self._kept_s = now_s
        if self.active:
            self.role = "standby"

    def _yields_to(self, said: Announcement) -> bool:
        theirs, mine = (said.rules, said.term), (self.rules, self.term)
        return theirs > mine or (theirs == mine and said.name < self.name)

    def _heard_itself(self, beat: int, now_s: float) -> None:
        sent_s = self._sent_s.get(beat)
        if sent_s is None or now_s - sent_s >= SILENCE_S:
            return  # it lay somewhere while this one was away, and says nothing of now
        self._heard_itself_s = sent_s
        if self._listens_since_s is None:
            self._listens_since_s = now_s

    # -- time --

    def look(self, now_s: float) -> None:
        """Conclude what time alone brings about."""
        self._others = {name: one for name, one in self._others.items() if now_s - one.at_s < SILENCE_S}
        if self._heard_itself_s is None or now_s - self._heard_itself_s >= SILENCE_S:
            self._deaf(now_s)
        elif self._is_ready and not self.active and now_s >= self._due_s():
            self._take_over(self._highest_term + 1)

    def next_s(self, now_s: float) -> float:
        """Seconds until it must look again, BEAT_S at most."""
        if self._listens_since_s is None or self.active or not self._is_ready:
            return BEAT_S
        return min(BEAT_S, max(0.0, self._due_s() - now_s))

    def _deaf(self, now_s: float) -> None:
        if self._listens_since_s is not None:
            self._listens_since_s, self._heard_itself_s, self._deaf_since_s = None, None, now_s
            self._others, self._company, self._kept_s = {}, False, None
            if self.active:
                self.role = "standby"
        waited_since_s = self._deaf_since_s if self._kept_s is None else max(self._deaf_since_s, self._kept_s)
        if self._is_ready and not self.active and now_s - waited_since_s >= DEAF_S:
            self._take_over(0)

    def _take_over(self, term: int) -> None:
        self.role, self.term = "active", term
        self._highest_term = max(self._highest_term, term)

    def _due_s(self) -> float:
        """When it becomes active unless an active one is heard before."""
        assert self._listens_since_s is not None
        since_s = self._listens_since_s if self._kept_s is None else max(self._listens_since_s, self._kept_s)
        return since_s + (SILENCE_S + self._before_it * STAGGER_S if self._company else START_S)

    @property
    def _before_it(self) -> int:
        """How many that stand by become active before this one would."""
        mine = _order(len(self.left), self.rules, self.name)
        others = (one.said for one in self._others.values() if one.said.role == "standby")
        return sum(_order(one.left_count, one.rules, one.name) < mine for one in others)


def _order(left: int, rules: int, name: str) -> tuple[int, int, str]:
    return left, -rules, name


def _within(some: frozenset[str] | None, others: frozenset[str] | None) -> bool:
    """Whether all runs of `some` are among `others`; None is too many to know."""
    return some is not None and (not some or (others is not None and some <= others))
