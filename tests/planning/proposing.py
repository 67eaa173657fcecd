"""Plans for tests: proposals as specialists claim them, and a run whose step `plan` asks for one."""

from typing import Any

from tests.supervisor.scenario import Said, Scenario, ended, given, goal, offer, step, teach

ANY = {"tokens": None, "tool_calls": None, "micro_usd": None}


def proposed(name: str, capability: str = "work", **fields: Any) -> dict[str, Any]:
    """One step of a proposal. `input` is {field: (kind, value)}, `budget` what is not null of it."""
    given_ = fields.pop("input", {})
    raw = {
        "id": name,
        "needs": [],
        "capability": capability,
        "specialist": "",
        "input": [{"field": field, "kind": kind, "value": value} for field, (kind, value) in given_.items()],
        "fact": "",
        "gate": "",
        "missing": "fail",
    }
    return raw | {"budget": ANY | fields.pop("budget", {})} | fields


def says(plan: Any, attempt: int = 1, by: str = "p", task: str = "plan") -> Said:
    """The planner `p` claims this plan; a list is one of these steps."""
    return ended(task, {task: {"steps": plan} if isinstance(plan, list) else plan}, attempt, by)


def planning(*offers: Said, plans: dict[str, Any] | None = None, after: bool = True, **fields: Any) -> Scenario:
    """A run that asks `p` for a plan, which `end` needs; `w` offers `work`."""
    playbook = {name: fields.pop(name) for name in ("budget", "replans", "parallel", "wakes") if name in fields}
    first = step("plan", "plan", plans=plans or {}, input={"goal": "input.q"}, **fields.pop("planner", {}))
    steps = [first, step("end", needs=["plan"], input={"parts": "facts.plan_facts"})][: 2 if after else 1]
    known = [offer("w", "work"), offer("p", "plan"), *offers]
    asked = goal({"q": "why", "n": {"deep": 1}}, **fields)
    return given(*known, teach(*steps, **{"returns": {"end": "facts.end"}} if after else {}, **playbook), asked)
