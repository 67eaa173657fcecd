"""What expressions and tasks see of a run: its input, and the facts of the steps that theirs needs.

Pure. A step sees only facts of steps that it needs, directly or not. Those are decided before it is expanded and do
not change, so its items, keys and inputs can be derived again, at any later time, with the same result.
"""

from typing import Any

from projections.canonical import Fact, State, StepState, group_span
from schemas.expressions import BadExpression, evaluate, fill, produce
from schemas.steps import PlanStep
from schemas.subjects import is_key
from schemas.tasks import Item, ReadFact, Task


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


def document(state: State, step: PlanStep | None = None) -> dict[str, Any]:
    """The document for expressions of `step`, or of the run's result when there is none."""
    seen = {name.id for name in state.plan} if step is None else ancestors(state, step)
    facts = {key: fact for key, fact in sorted(state.facts.items()) if fact.step in seen}
    return {
        "input": state.input,
        "facts": _nested({key: fact.value for key, fact in facts.items()}),
        "claims": _nested({key: _claims(fact) for key, fact in facts.items()}),
        "missing": sorted(key for key, missing in state.missing.items() if missing.step in seen),
    }


def _claims(fact: Fact) -> list[dict[str, Any]]:
    won = {"by": fact.by, "value": fact.value, "won": True}
    return [won, *({"by": loser.by, "value": loser.value, "won": False} for loser in fact.losers)]


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
        self._document = document(state, step)
        self._list = self._evaluate_list()
        self._keys: dict[int, str] = {}

    def _evaluate_list(self) -> list[Any] | None:
        if not self.step.for_each:
            return None
        found = evaluate(self.step.for_each, self._document)
        if not isinstance(found, list):
            raise BadExpression(f"for_each {self.step.for_each!r} is no list here; a blob cannot be a list either")
        return found

    def __len__(self) -> int:
        return 1 if self._list is None else len(self._list)

    def _scope(self, index: int) -> dict[str, Any]:
        return self._document if self._list is None else self._document | {"item": self._list[index], "index": index}

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

    def input(self, index: int) -> dict[str, Any]:
        scope = self._scope(index)
        return {name: produce(expression, scope) for name, expression in self.step.input.items()}

    def accepts(self, index: int, claim: dict[str, Any]) -> Any:
        """The value of the step's `accept` for a claim `{value, confidence, by}`."""
        return evaluate(self.step.accept, self._scope(index) | {"input": self.input(index)} | claim)

    def holds(self) -> Any:
        """The value of the step's `when`."""
        return evaluate(self.step.when, self._document)

    def items(self, step: StepState, group: int) -> tuple[Item, ...]:
        return tuple(Item(self.key(index), self.input(index)) for index in group_span(step, group))

    def read_facts(self) -> dict[str, ReadFact]:
        """The facts that the step's tasks may read, by `reads`, among those of the steps that it needs."""
        seen = ancestors(self.state, self.step)
        return {
            key: ReadFact(fact.value, fact.version)
            for key, fact in sorted(self.state.facts.items())
            if fact.step in seen and any(_matches(pattern, key) for pattern in self.step.reads)
        }


def _matches(pattern: str, key: str) -> bool:
    return key == pattern or (pattern.endswith(".*") and key.startswith(pattern[:-1]))


def task_message(work: Work, name: str, span: str) -> Task:
    """The self-contained message of the attempt of task `name` that is in flight."""
    state, task = work.state, work.state.tasks[name]
    return Task(
        log=state.log,
        run=state.run,
        task=name,
        attempt=task.attempt,
        specialist=task.specialist,
        contract=task.contract,
        items=work.items(state.steps[task.step], task.group),
        facts=work.read_facts(),
        read_version=task.read_version,
        wait_ms=task.wait_ms,
        work_ms=task.work_ms,
        span=span,
    )
