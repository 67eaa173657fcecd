"""What expressions and tasks see of a run: its input, and the facts of the steps that theirs needs.

Pure. A step sees only facts of steps that it needs, directly or not, and those that its plan names. They are decided
before it is expanded. A fact may get a newer value later, so everything is seen as of a version of the run: the items
and keys of a step as of its expansion, the inputs and facts of a task as of its dispatch. So all can be derived again,
at any later time, with the same result.
"""

from typing import Any, NamedTuple

from projections.canonical import Fact, State, StepState, TaskState, group_span
from schemas.codec import canonical
from schemas.events import Loser
from schemas.expressions import BadExpression, evaluate, fill, produce
from schemas.steps import PlanStep
from schemas.subjects import is_key, key_matches
from schemas.taint import Labels, joined
from schemas.tasks import Item, ReadFact


class Seen(NamedTuple):
    """A fact as of some version of the run."""

    value: Any
    version: int
    by: str
    losers: tuple[Loser, ...]
    taint: Labels


def ancestors(state: State, step: PlanStep) -> set[str]:
    """The ids of all steps that `step` needs."""
    found: set[str] = set()
    waiting = list(step.needs)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += state.step(name).needs
    return found


def visible(state: State, step: PlanStep | None, at: int | None = None) -> dict[str, Seen]:
    """The facts that `step` sees as of version `at` (None: now), by key; all of the run where there is no step."""
    steps = None if step is None else ancestors(state, step)
    keys = () if step is None else step.sees
    if steps is not None and not steps and not keys:
        return {}
    found: dict[str, Seen] = {}
    for key, fact in state.facts.items():
        if steps is None or fact.step in steps or key in keys or (fact.previous and _stood_in(fact, steps)):
            seen = _as_of(fact, at)
            if seen:
                found[key] = seen
    return dict(sorted(found.items()))


def _stood_in(fact: Fact, steps: set[str]) -> bool:
    """Whether one of the steps gave the fact a value that it had before."""
    return any(old.step in steps for old in fact.previous)


def _as_of(fact: Fact, at: int | None) -> Seen | None:
    if at is None or fact.version <= at:
        return Seen(fact.value, fact.version, fact.by, fact.losers, fact.taint)
    old = next((old for old in reversed(fact.previous) if old.version <= at), None)
    return Seen(old.value, old.version, old.by, old.losers, old.taint) if old else None


def document(state: State, step: PlanStep | None = None, at: int | None = None) -> dict[str, Any]:
    """The document for expressions of `step`, or of the run's result when there is none."""
    facts = visible(state, step, at)
    steps = {one.id for one in state.plan} if step is None else ancestors(state, step)
    missing = (
        key
        for key, one in state.missing.items()
        if key not in facts and any(by in steps for by in (*one.before, one.step))
    )
    return {
        "input": state.input,
        "facts": _nested({key: seen.value for key, seen in facts.items()}),
        "claims": _nested({key: _claims(seen) for key, seen in facts.items()}),
        "missing": sorted(missing),
    }


def _claims(seen: Seen) -> list[dict[str, Any]]:
    won = {"by": seen.by, "value": seen.value, "won": True}
    return [won, *({"by": loser.by, "value": loser.value, "won": False} for loser in seen.losers)]


def _nested(values: dict[str, Any]) -> dict[str, Any]:
    """{"a.b": 1} as {"a": {"b": 1}}. Raises BadExpression where one key lies inside another."""
    tree: dict[str, Any] = {}
    branches: dict[str, dict[str, Any]] = {"": tree}
    for key, value in values.items():
        path, branch = "", tree
        *above, leaf = key.split(".")
        for segment in above:
            path = f"{path}.{segment}"
            if path not in branches:
                if segment in branch:
                    raise BadExpression(f"key {key!r} lies inside key {path[1:]!r}")
                branches[path] = branch.setdefault(segment, {})
            branch = branches[path]
        if leaf in branch:
            raise BadExpression(f"other keys lie inside key {key!r}")
        branch[leaf] = value
    return tree


class Work:
    """The items of one step: what each receives, and under which key its value is claimed. Raises BadExpression."""

    def __init__(self, state: State, step: PlanStep) -> None:
        self.state, self.step = state, step
        expanded = state.steps[step.id]
        self._at = expanded.at if expanded.items >= 0 else state.version
        self._documents: dict[int, dict[str, Any]] = {}
        self._document = self._as_of(self._at)
        self._list = self._list_in(self._document)
        self._keys: dict[int, str] = {}

    def _as_of(self, at: int) -> dict[str, Any]:
        """While no fact of the run has got a newer value, all versions after the expansion look the same."""
        version = at if self.state.replaced else self._at
        if version not in self._documents:
            self._documents[version] = document(self.state, self.step, at if self.state.replaced else None)
        return self._documents[version]

    def _list_in(self, seen: dict[str, Any]) -> list[Any] | None:
        if not self.step.for_each:
            return None
        found = evaluate(self.step.for_each, seen)
        if not isinstance(found, list):
            raise BadExpression(f"for_each {self.step.for_each!r} is no list here; a blob cannot be a list either")
        return found

    def __len__(self) -> int:
        return 1 if self._list is None else len(self._list)

    def _scope(self, index: int, at: int | None = None) -> dict[str, Any]:
        seen = self._document if at is None else self._as_of(at)
        return seen if self._list is None else seen | {"item": self._list[index], "index": index}

    def key(self, index: int) -> str:
        if index not in self._keys:
            self._keys[index] = self._key(index)
        return self._keys[index]

    def _key(self, index: int) -> str:
        key = fill(self.step.fact, self._scope(index))
        if not is_key(key):
            raise BadExpression(f"{key[:100]!r} is not a fact key: tokens of letters, digits, '_', '-', joined by dots")
        return key

    def keys(self) -> list[str]:
        return [self.key(index) for index in range(len(self))]

    def input(self, index: int, at: int | None = None) -> dict[str, Any]:
        scope = self._scope(index, at)
        return {name: produce(expression, scope) for name, expression in self.step.input.items()}

    def value(self, index: int) -> Any:
        """The value of a step that is an expression."""
        return produce(self.step.value, self._scope(index))

    def accepts(self, index: int, at: int | None, claim: dict[str, Any]) -> Any:
        """The value of the step's `accept` for a claim `{value, confidence, by}` of a task that was dispatched at
        `at`."""
        return evaluate(self.step.accept, self._scope(index, at) | {"input": self.input(index, at)} | claim)

    def holds(self) -> Any:
        """The value of the step's `when`."""
        return evaluate(self.step.when, self._document)

    def route(self) -> list[str]:
        """The specialists that the step's `route` names, first choice first."""
        found = evaluate(self.step.route, self._document)
        names = [found] if isinstance(found, str) else found if found is not None else []
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise BadExpression(f"route {self.step.route!r} is neither a name nor a list of names here")
        return list(dict.fromkeys(names))

    def items(self, step: StepState, group: int, at: int | None = None) -> tuple[Item, ...]:
        return tuple(Item(self.key(index), self.input(index, at)) for index in group_span(step, group))

    def read_facts(self, at: int | None = None) -> dict[str, ReadFact]:
        """The facts that the step's tasks may read, by `reads`, among those that the step sees."""
        if not self.step.reads:
            return {}
        seen = visible(self.state, self.step, at if self.state.replaced else None)
        return {
            key: ReadFact(one.value, one.version)
            for key, one in seen.items()
            if any(key_matches(pattern, key) for pattern in self.step.reads)
        }

    def taint(self, at: int | None = None) -> Labels:
        """The labels of all that the step sees: of its facts, and of the input of the run. What an expression makes of
        them cannot be told apart."""
        if not any(fact.taint for fact in self.state.facts.values()):
            return self.state.taint
        seen = visible(self.state, self.step, at if self.state.replaced else None)
        return joined(self.state.taint, *(one.taint for one in seen.values()))

    def changed(self, task: TaskState) -> list[str]:
        """What rests otherwise now than when `task` was dispatched, so that it would be asked something else: keys of
        the facts that it may read, and `input` for those that its input was made of. A task that reconciles sees
        nothing but claims."""
        if not self.state.replaced or task.index >= 0:
            return []
        was, now = self.read_facts(task.read_version), self.read_facts(self.state.version)
        keys = [key for key, fact in was.items() if now[key].version != fact.version]
        return keys if self._same_input(task) else [*keys, "input"]

    def outdated(self, task: TaskState) -> list[str]:
        """As `changed`, and `for_each` where the list that the step was expanded from has other items for it now: a
        step is expanded once."""
        keys = self.changed(task)
        return [*keys, "for_each"] if self.state.replaced and not self._same_list(task) else keys

    def _same_input(self, task: TaskState) -> bool:
        step = self.state.steps[task.step]
        was = self.items(step, task.group, task.read_version)
        try:
            return canonical(was) == canonical(self.items(step, task.group, self.state.version))
        except BadExpression:
            return False

    def _same_list(self, task: TaskState) -> bool:
        span = group_span(self.state.steps[task.step], task.group)
        try:
            now = self._list_in(self._as_of(self.state.version))
        except BadExpression:
            return False
        if self._list is None or now is None:
            return True
        return canonical(self._list[span.start : span.stop]) == canonical(now[span.start : span.stop])
