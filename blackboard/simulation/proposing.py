"""Plans that a scripted specialist proposes, drawn from what it is told: such as can be committed, and all others."""

from collections.abc import Callable, Mapping
from typing import Any

Share = Callable[..., float]
"""0 to 1, the same whenever it is drawn for the same words."""
UNLIMITED: Mapping[str, None] = {"tokens": None, "tool_calls": None, "micro_usd": None}


def proposal(planning: Mapping[str, Any], most: int, wrong: bool, share: Share) -> Any:
    """A plan of `most` steps at most, for what `planning` (schemas.proposals.Planning) says."""
    offers = planning.get("offers") or []
    if not offers:
        return {"steps": []}
    count = 1 + int(share("count") * min(most, planning["steps"]))
    steps: list[dict[str, Any]] = []
    for number in range(min(count, most, planning["steps"])):
        steps.append(
            _step(f"n{number}", offers, [step["id"] for step in steps], lambda *what, n=number: share(n, *what))
        )
    if wrong:
        mistake = MISTAKES[int(share("mistake") * len(MISTAKES))]
        return mistake(steps)
    return {"steps": steps}


def _step(name: str, offers: list[Any], before: list[str], share: Share) -> dict[str, Any]:
    offer = offers[int(share("offer") * len(offers))]
    named = share("named") < 0.5 or offer["authority"] == "effect"
    capability = offer["offers"][int(share("capability") * len(offer["offers"]))]
    needs = [one for one in before if share("needs", one) < 0.4]
    given = [
        {"field": "x", "kind": "json", "value": "1"},
        *({"field": f"of-{one}", "kind": "step", "value": one} for one in needs),
    ]
    return {
        "id": name,
        "needs": needs if share("said") < 0.5 else [],
        "capability": capability if not named or share("both") < 0.5 else "",
        "specialist": offer["specialist"] if named else "",
        "input": given,
        "fact": f"f-{name}" if share("fact") < 0.3 else "",
        "budget": dict(UNLIMITED) | ({"tokens": 10} if share("budget") < 0.3 else {}),
        "gate": "may it?" if offer["authority"] == "effect" else "",
        "missing": "allow" if share("missing") < 0.7 else "fail",
    }


Steps = list[dict[str, Any]]


def _changed(**fields: Any) -> Callable[[Steps], Any]:
    """The last step has these fields instead."""
    return lambda steps: {"steps": [*steps[:-1], steps[-1] | fields]}


MISTAKES: tuple[Callable[[Steps], Any], ...] = (
    lambda steps: 7,
    lambda steps: {"steps": []},
    lambda steps: {"steps": [*steps, steps[0]]},
    lambda steps: {"steps": [{name: value for name, value in steps[0].items() if name != "gate"}]},
    lambda steps: {"steps": [step | {"needs": [steps[-1]["id"]]} for step in steps]},
    _changed(capability="nothing", specialist=""),
    _changed(specialist="nobody"),
    _changed(capability="plan", specialist=""),
    _changed(capability="", specialist=""),
    _changed(needs=["nowhere"]),
    _changed(id="not a name"),
    _changed(input=[{"field": "x", "kind": "expression", "value": "facts.nothing"}]),
    _changed(input=[{"field": "x", "kind": "expression", "value": "input.["}]),
    _changed(budget=dict(UNLIMITED) | {"tokens": 10**9, "micro_usd": 10**9}),
)
"""What a plan may be like that no run commits; of some a run without a budget commits the last."""
