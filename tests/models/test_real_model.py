"""A small real model behind a real server: what it says makes little sense, so forms, counts and ends are looked at."""

from random import Random
from typing import Annotated, Any, Literal

from pydantic import BaseModel, StringConstraints

from specialists.chat import Chat
from specialists.context import LocalContext
from specialists.models import Model
from tests.models.endpoint import served
from tests.models.faults import Proxy, team
from tests.plugins.figures import Figures
from tests.topologies.casts import at_work, board_in_memory


class Step(BaseModel):
    action: Literal["read", "write", "stop"]
    why: Annotated[str, StringConstraints(max_length=40, pattern=r"^[a-z ]{1,40}$")]
    times: int | None = None


def model(url: str, **fields: Any) -> Model:
    return Model(**{"name": "SmolLM2", "base_url": url, "temperature": 0, "seed": 1, "max_tokens": 160} | fields)


async def test_every_answer_has_the_form(real_url: str, figures: Figures) -> None:
    valid = 0
    for seed in range(8):
        context = LocalContext()
        answer = await Chat(context, model(real_url, temperature=0.8, seed=seed)).ask("What is next?", Step)
        valid += isinstance(answer, Step)
    figures.say(f"real model: {valid} of 8 values have their form")
    assert valid == 8


async def test_same_seed_says_the_same_and_the_prefix_is_cached(real_url: str) -> None:
    said = []
    for _ in range(2):
        context = LocalContext()
        chat = Chat(context, model(real_url, max_tokens=400, stream=True))
        said.append([await chat.ask("Say hello."), await chat.ask("And again.")])
        assert context.observations[-1].cached_tokens > 0  # type: ignore[union-attr]
    assert said[0] == said[1]


async def test_tokens_of_a_run_are_those_that_the_server_counted(real_url: str, figures: Figures) -> None:
    proxy = Proxy(real_url, Random(1), 0.0)
    fields = {"temperature": 0, "timeout_s": 60}
    with served(proxy.handle) as url:
        async with at_work(board_in_memory(), [team(url, **fields)]) as cast:
            state = await cast.ended(await cast.publish("judges", ns=[1, 2, 3]), within_s=55)
    assert state.end == "DONE"
    assert (state.usage.input_tokens, state.usage.output_tokens) == tuple(proxy.used)
    figures.say(f"real model: a run has used {proxy.used[0]} + {proxy.used[1]} tokens, as the server counted")
