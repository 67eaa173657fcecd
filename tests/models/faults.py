"""`python -m tests.models.faults`: runs of a model-backed team through a proxy that spoils what the endpoint says.

Each seed is one run of a real supervisor and a real worker on a board in memory. The last line is the figure.
"""

import argparse
import asyncio
import logging
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any

import httpx2
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from projections.canonical import State
from projections.conversations import model_calls
from schemas.goals import Budget
from schemas.inputs import ModelCalled
from schemas.playbooks import Playbook, Step
from specialists import chat
from specialists.chat import Chat
from specialists.context import WorkContext
from specialists.models import Model
from specialists.specialist import Specialist, Team, specialist
from tests.models.endpoint import Endpoint, Say, served
from tests.topologies.casts import at_work, board_in_memory

FAULTS = (
    "429",
    "429-date",
    "500",
    "503",
    "cut",
    "slow",
    "malformed",
    "wrong-schema",
    "no-choices",
    "no-usage",
    "reset",
)
BUDGET_TOKENS = 6_000
SLOW_S = 4.0
TIMEOUT_S = 2.0
EXPECTED = {
    "429": {"TOOL_DOWN"},
    "429-date": {"TOOL_DOWN"},
    "500": {"TOOL_DOWN"},
    "503": {"TOOL_DOWN"},
    "cut": {"TOOL_DOWN"},
    "slow": {"TIMEOUT"},
    "malformed": {"TOOL_DOWN"},
    "wrong-schema": {""},
    "no-choices": {"TOOL_DOWN"},
    "no-usage": {""},
    "reset": {"TOOL_DOWN"},
}
"""The codes of a call in which this went wrong. An answer of the wrong form is an answer, which is asked for again."""


@dataclass
class Proxy:
    """Between the SDK and `upstream`, an endpoint's base URL. Each call goes wrong with the chance `rate`, and then
    comes to one of FAULTS. `used` is what the endpoint said to the caller that it used."""

    upstream: str
    random: Random
    rate: float
    faults: list[str] = field(default_factory=list)
    used: list[int] = field(default_factory=lambda: [0, 0])

    async def handle(self, request: Request) -> Response:
        body = await request.body()
        fault = self.random.choice(FAULTS) if self.random.random() < self.rate else ""
        self.faults.append(fault)
        if early := _early(fault):
            return early
        async with httpx2.AsyncClient(timeout=60) as client:
            answer = await client.post(f"{self.upstream}/chat/completions", content=body, headers=_headers(request))
        if answer.status_code != 200:
            return Response(answer.content, answer.status_code)
        return self._spoiled(fault, answer)

    def _spoiled(self, fault: str, answer: httpx2.Response) -> Response:
        value = answer.json()
        match fault:
            case "cut":
                return StreamingResponse(
                    _cut(answer.content[: len(answer.content) // 2]), media_type="application/json"
                )
            case "malformed":
                return Response(answer.content[:-7], media_type="application/json")
            case "slow":
                return StreamingResponse(_slow(answer.content), media_type="application/json")
            case "no-usage":
                del value["usage"]
                return JSONResponse(value)
            case "no-choices":
                value["choices"] = []
            case "wrong-schema":
                value["choices"][0]["message"]["content"] = '{"something": "else"}'
        self.used[0] += value["usage"]["prompt_tokens"]
        self.used[1] += value["usage"]["completion_tokens"]
        return JSONResponse(value)


def _early(fault: str) -> Response | None:
    error = {"error": {"message": fault, "type": "t", "param": None, "code": None}}
    match fault:
        case "429":
            return JSONResponse(error, 429, {"retry-after": "0"})
        case "429-date":
            return JSONResponse(error, 429, {"retry-after": "Mon, 30 Nov 2020 00:00:00 GMT"})
        case "500" | "503":
            return JSONResponse(error, int(fault))
        case "reset":
            return StreamingResponse(_cut(b""), media_type="application/json")
    return None


def _headers(request: Request) -> dict[str, str]:
    return {"content-type": "application/json", "authorization": request.headers.get("authorization", "")}


async def _cut(data: bytes) -> AsyncIterator[bytes]:
    yield data
    await asyncio.sleep(0.01)
    raise ConnectionAbortedError


async def _slow(data: bytes) -> AsyncIterator[bytes]:
    await asyncio.sleep(SLOW_S)
    yield data


class Verdict(BaseModel):
    keep: bool


def team(url: str, **fields: Any) -> Team:
    made = Model(**{"name": "m", "base_url": url, "timeout_s": TIMEOUT_S, "max_tokens": 64, "repairs": 1} | fields)

    @specialist("judge", offers="judge", attempts=3, backoff_s=0, budget=Budget(tokens=2_000), deadline_s=60)
    async def judge(item: dict[str, Any], context: WorkContext) -> Verdict:
        """Keeps or not."""
        return await Chat(context, made, system="You judge.").ask(f"Keep {item['n']}?", Verdict)

    judged = Step(
        id="judge",
        capability="judge",
        for_each="input.ns",
        input={"n": "item"},
        missing="allow",
        budget=Budget(tokens=1_500),
    )
    playbook = Playbook(
        team="judges", steps=[judged], returns={"all": "facts.judge"}, budget=Budget(tokens=BUDGET_TOKENS)
    )
    specialists: list[Specialist] = [judge]
    return Team(playbook, specialists)


@dataclass
class Outcome:
    """What came of one run, and what is wrong with it."""

    end: str
    calls: int
    faults: Counter[str]
    codes: Counter[str]
    problems: list[str]


async def one_run(seed: int, upstream: str, rate: float, **fields: Any) -> Outcome:
    proxy = Proxy(upstream, Random(seed), rate)
    with served(proxy.handle) as url:
        async with at_work(board_in_memory(), [team(url, **fields)]) as cast:
            run = await cast.publish("judges", ns=[1, 2])
            state = await cast.ended(run)
            told = [one.called async for one in model_calls(cast.board, run)]
            late = state.reserved
    codes = Counter(one.code or "answered" for one in told)
    return Outcome(state.end, len(told), Counter(proxy.faults), codes, _problems(proxy, state, told, late))


def _problems(proxy: Proxy, state: State, told: list[ModelCalled], reserved: Any) -> list[str]:
    problems = []
    used = (state.usage.input_tokens, state.usage.output_tokens)
    if used != tuple(proxy.used):
        problems.append(f"the state counts {used} tokens, the endpoint said {tuple(proxy.used)}")
    recorded = (sum(one.usage.input_tokens for one in told), sum(one.usage.output_tokens for one in told))
    if recorded != used:
        problems.append(f"the calls on the log have {recorded} tokens, the state {used}")
    if len(told) != len(proxy.faults):
        problems.append(f"{len(proxy.faults)} calls were made, {len(told)} are on the log")
    allowed = Counter[str]()
    for fault in proxy.faults:
        allowed[next(iter(EXPECTED[fault])) if fault else ""] += 1
    if (codes := Counter[str](one.code for one in told)) != allowed:
        problems.append(f"codes {codes}, where {allowed} are right")
    if state.charged.tokens > BUDGET_TOKENS or state.overrun:
        problems.append(f"charged {state.charged}, overrun {state.overrun}")
    if reserved:
        problems.append(f"{reserved} is reserved after the end")
    return problems


@contextmanager
def quick_pauses():  # type: ignore[no-untyped-def]
    before, chat.BACKOFF_S = chat.BACKOFF_S, (0.01, 0.05)
    try:
        yield
    finally:
        chat.BACKOFF_S = before


def scripted() -> Endpoint:
    return Endpoint(lambda asked: Say('{"keep": true}', usage=(len(str(asked["messages"])) // 4, 6)))


async def runs(seeds: range, rates: tuple[float, ...] = (0.3, 0.8)) -> list[Outcome]:
    source = scripted()
    with quick_pauses(), served(source.handle) as upstream:
        return [await one_run(seed, upstream, rates[seed % len(rates)]) for seed in seeds]


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.models.faults", description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=200)
    options = parser.parse_args(arguments)
    logging.disable(logging.WARNING)
    found = asyncio.run(runs(range(options.runs)))
    for seed, one in enumerate(found):
        for problem in one.problems:
            print(f"seed {seed}: {problem}")
    ends, faults, codes = Counter(one.end for one in found), Counter[str](), Counter[str]()
    for one in found:
        faults += one.faults
        codes += one.codes
    broken = sum(bool(one.problems) for one in found)
    spoiled = sum(count for fault, count in faults.items() if fault)
    print(f"ends {dict(ends.most_common())}; calls {dict(codes.most_common())}; faults {dict(faults.most_common())}")
    print(f"llm-faults: {len(found)} runs, {sum(codes.values())} calls, {spoiled} spoiled, {broken} broken")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
