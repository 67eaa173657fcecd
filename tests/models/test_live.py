"""A real provider, once for each kind of specialist that asks models. Without a key they are counted apart.

`BLACKBOARD_MODEL` names the model (default: gpt-5-mini).
"""

import os
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import BaseModel

from schemas.playbooks import MergePolicy, Playbook, Step
from specialists.chat import Chat
from specialists.context import LocalContext, WorkContext
from specialists.models import Model, model_of
from specialists.planner import planner
from specialists.reconciler import reconciling
from specialists.research.team import TEAM as RESEARCH
from specialists.specialist import Team, specialist
from tests.topologies.casts import at_work, board_in_memory

SET = {name: os.environ[name] for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL") if name in os.environ}
MODEL = os.environ.get("BLACKBOARD_MODEL", "gpt-5-mini")
"""As they are before the fixture of this folder takes them away."""
pytestmark = [pytest.mark.needs_key("OPENAI_API_KEY"), pytest.mark.timeout(180)]


@pytest.fixture(autouse=True)
def a_real_model(nothing_configured: None, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in SET.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("BLACKBOARD_MODEL", MODEL)


class Sum(BaseModel):
    total: int
    parity: Literal["odd", "even"]


async def test_value_in_a_form() -> None:
    for structured in ("schema", "tool", "json"):
        model = Model(name=MODEL, structured=structured)  # type: ignore[arg-type]
        assert await Chat(LocalContext(), model).ask("What is 2 + 3?", Sum) == Sum(total=5, parity="odd")


async def test_tool_is_called() -> None:
    async def add(a: int, b: int) -> int:
        """The sum of two numbers."""
        return a + b

    @specialist("counter", offers="count", tools=[add])
    async def counter(item: dict[str, Any]) -> dict[str, Any]:
        return item

    context = LocalContext(counter)
    answer = await Chat(context, model_of("counter")).work("Add 20 and 22 with your tool.", Sum)
    assert answer.total == 42
    assert context.usage.tool_calls >= 1


async def ended(team: Team, **input: Any) -> Any:
    async with at_work(board_in_memory(), [team]) as cast:
        return await cast.ended(await cast.publish(team.name, **input), within_s=150)


async def test_planner() -> None:
    @specialist("shouter", offers="shout")
    async def shouter(item: dict[str, str], context: WorkContext) -> str:
        """Says a text in capital letters. Takes `text`."""
        return item.get("text", "").upper()

    step = Step(id="plan", capability="plan", input={"goal": "input.goal"}, plans={})
    playbook = Playbook(team="planned", steps=[step], returns={"all": "facts"})
    state = await ended(Team(playbook, [planner, shouter]), goal="say hello in capital letters")
    assert state.end == "DONE", state.reason
    assert any(one.planned_by for one in state.plan)


async def test_reconciler() -> None:
    def sayer(name: str, value: str) -> Any:
        @specialist(name, offers="capital")
        async def made(item: dict[str, Any]) -> str:
            return value

        return made

    step = Step(
        id="capital-of-France",
        capability="capital",
        specialist="all",
        input={"x": "input"},
        merge=MergePolicy(policy="reconcile", specialist="reconciler"),
    )
    playbook = Playbook(team="capitals", steps=[step], returns={"capital": 'facts."capital-of-France"'})
    state = await ended(Team(playbook, [sayer("a", "Paris"), sayer("b", "Lyon"), reconciling()]))
    assert (state.end, state.result) == ("DONE", {"capital": "Paris"}), state.reason


async def test_research_team(tmp_path: Path) -> None:
    (tmp_path / "cups.md").write_text("# Cups\n\nThe cup holds 300 millilitres. It is blue.\n", encoding="utf-8")
    state = await ended(RESEARCH, question="How much does the cup hold?", path=str(tmp_path))
    assert state.end == "DONE", state.reason
    assert "300" in str(state.result)
    assert state.usage.input_tokens > 0
