"""Supervisors that announce themselves to each other in a world of our own: who is active when, without a process, a
server or a clock. They are paused, cut off, stopped and killed; what they say takes its time and may be lost."""

import heapq
import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from schemas.announcements import Announcement, Role
from supervisor.standby import BEAT_S, Standing

DELAY_S = 0.05
"""What an announcement takes at most to be heard."""
TURN_S = 0.03
"""How late one looks at most."""


@dataclass
class Node:
    """`side`: of a network that is cut in two or more, the part that it is in; None: it is alone, without itself."""

    standing: Standing
    side: int | None = 0
    alive: bool = True
    wakes_s: float = 0.0
    next_beat_s: float = 0.0
    role: Role = "starting"
    changes: list[tuple[float, Role]] = field(default_factory=list)


class Network:
    """Everything that happens, in order of time; `chance` draws delays."""

    def __init__(self, seed: int, lossy: float = 0.0) -> None:
        self.now_s = 0.0
        self.nodes: dict[str, Node] = {}
        self._chance, self._lossy = random.Random(seed), lossy
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()

    def at(self, at_s: float, act: Callable[[], None]) -> None:
        heapq.heappush(self._due, (at_s, next(self._numbers), act))

    def lossless(self) -> None:
        self._lossy = 0.0

    def run(self, until_s: float) -> None:
        while self._due and self._due[0][0] <= until_s:
            self.now_s, _, act = heapq.heappop(self._due)
            act()
        self.now_s = until_s

    # -- what happens to them --

    def start(self, name: str, rules: int = 1) -> Node:
        node = self.nodes[name] = Node(Standing(name, rules, self.now_s))
        node.standing.ready()
        self._live(node)
        return node

    def kill(self, name: str) -> None:
        if node := self.nodes.pop(name, None):
            node.alive = False

    def stop(self, name: str) -> None:
        """A clean end, which says so."""
        if (node := self.nodes.get(name)) and node.wakes_s <= self.now_s:
            self._announce(node, "leaving")
            self.kill(name)

    def pause(self, name: str, for_s: float) -> None:
        if node := self.nodes.get(name):
            node.wakes_s = max(node.wakes_s, self.now_s + for_s)

    def put(self, name: str, side: int | None) -> None:
        if node := self.nodes.get(name):
            node.side = side

    def leave(self, name: str, run: str) -> None:
        """It finds that it must leave `run` alone; only who decides finds that."""
        if (node := self.nodes.get(name)) and node.standing.active:
            node.standing.left |= {run}

    # -- what they do --

    def _live(self, node: Node) -> None:
        if not node.alive:
            return
        if node.wakes_s > self.now_s:
            self.at(node.wakes_s, lambda: self._live(node))
            return
        node.standing.look(self.now_s)
        if self._note(node) or self.now_s >= node.next_beat_s:
            self._announce(node, node.role)
        late_s = TURN_S * self._chance.random()
        self.at(self.now_s + node.standing.next_s(self.now_s) + late_s, lambda: self._live(node))

    def _note(self, node: Node) -> bool:
        before, node.role = node.role, node.standing.role
        if before != node.role:
            node.changes.append((self.now_s, node.role))
        return before != node.role

    def _announce(self, node: Node, role: Role) -> None:
        node.next_beat_s = self.now_s + BEAT_S
        standing = node.standing
        beat, term = standing.beat(self.now_s)
        left = tuple(sorted(standing.left))
        said = Announcement(standing.name, "log-1", role, standing.rules, term, beat, left=left, left_count=len(left))
        if node.side is None:
            return
        for other in list(self.nodes.values()):
            if other.side == node.side and self._chance.random() >= self._lossy:
                self.at(self.now_s + DELAY_S * self._chance.random(), lambda other=other: self._hear(other, said))  # type: ignore[misc]

    def _hear(self, node: Node, said: Announcement) -> None:
        if not node.alive:
            return
        if node.wakes_s > self.now_s:  # it lies in its socket
            self.at(node.wakes_s, lambda: self._hear(node, said))
            return
        node.standing.heard(said, self.now_s)
        if self._note(node):
            self._announce(node, node.role)

    # -- what came of it --

    @property
    def active(self) -> list[str]:
        return sorted(name for name, node in self.nodes.items() if node.standing.active)

    def changes_since(self, since_s: float) -> list[tuple[str, float, Role]]:
        return [
            (name, at_s, role) for name, node in self.nodes.items() for at_s, role in node.changes if at_s > since_s
        ]

    def unserved(self) -> list[str]:
        """What is wrong once all is quiet: one that stands by where nobody active decides what it would, or two that
        are active where one would do."""
        active = [self.nodes[name].standing for name in self.active]
        wrong = [
            f"{name} stands by for nobody"
            for name, node in self.nodes.items()
            if not node.standing.active and not any(one.left <= node.standing.left for one in active)
        ]
        wrong += [
            f"{one.name} is active beside {other.name}"
            for one, other in itertools.permutations(active, 2)
            if other.left <= one.left
        ]
        return wrong
