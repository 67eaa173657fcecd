"""`blackboard a2a`, a process of its own on a real board, used by the official client of A2A."""

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from a2a.client import Client as A2A
from a2a.client import ClientConfig, create_client
from a2a.helpers import get_message_text, new_data_message, new_text_message
from a2a.types.a2a_pb2 import CancelTaskRequest, GetTaskRequest, Message, Role, SendMessageRequest, Task, TaskState

from blackboard.client import Client
from projections.a2a_server import run_of
from schemas.playbooks import Playbook, Step
from tests.end_to_end.support import run_until
from tests.mcp.servers import PATIENCE_S

pytestmark = pytest.mark.timeout(180)  # processes import for seconds where the machine is busy
STATES = {getattr(TaskState, name): name.removeprefix("TASK_STATE_") for name in TaskState.keys()}  # noqa: SIM118


class Agent:
    def __init__(self, client: A2A, url: str) -> None:
        self.client, self.url = client, url

    async def ask(self, message: Message) -> tuple[Task, list[str]]:
        """The task as it is at the end of what the agent says now, and its states on the way."""
        states: list[str] = []
        task = Task()
        async with asyncio.timeout(PATIENCE_S):
            async for said in self.client.send_message(SendMessageRequest(message=message)):
                if said.HasField("task"):
                    task.CopyFrom(said.task)
                    states.append(STATES[task.status.state])
                elif said.HasField("status_update"):
                    task.status.CopyFrom(said.status_update.status)
                    states.append(STATES[task.status.state])
                elif said.HasField("artifact_update"):
                    task.artifacts.append(said.artifact_update.artifact)
        return task, states


@asynccontextmanager
async def agent(there: list[str]) -> AsyncIterator[Agent]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "blackboard.cli", "a2a", *there, "--json", stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        url = json.loads(await asyncio.wait_for(process.stdout.readline(), PATIENCE_S))["url"]
        async with httpx.AsyncClient(timeout=PATIENCE_S, trust_env=False) as http:
            client = await create_client(url, ClientConfig(httpx_client=http))
            yield Agent(client, url)
    finally:
        process.send_signal(signal.SIGTERM)
        await asyncio.wait_for(process.wait(), PATIENCE_S)


def asks(team: str, **input: Any) -> Message:
    return new_data_message({"team": team, "input": input}, role=Role.ROLE_USER)


async def test_task_is_a_run_and_its_artifact_the_result(pat: Client, there: list[str]) -> None:
    await pat.teach(Playbook(team="sum", steps=[Step(id="a", value="input.n")], returns={"n": "facts.a"}))
    async with agent(there) as one:
        async with httpx.AsyncClient(trust_env=False) as http:
            card = (await http.get(f"{one.url}/.well-known/agent-card.json")).json()
        assert {"sum", "choice"} <= {skill["id"] for skill in card["skills"]}
        task, states = await one.ask(asks("sum", n=2**40))
        assert (states[0], states[-1]) == ("SUBMITTED", "COMPLETED")
        assert json.loads(task.artifacts[0].parts[0].text) == {"n": 2**40}
        found = await one.client.get_task(GetTaskRequest(id=task.id))
        assert STATES[found.status.state] == "COMPLETED"
    folded = await run_until(pat.board, run_of(task.id), lambda state: state.end)
    assert (folded.state.end, folded.state.team) == ("DONE", "sum")


async def test_text_alone_is_for_the_one_team_that_takes_a_text(pat: Client, there: list[str]) -> None:
    schema = {"type": "object", "required": ["q"], "properties": {"q": {"type": "string"}}}
    await pat.teach(
        Playbook(team="echo", input=schema, steps=[Step(id="a", value="input.q")], returns={"q": "facts.a"})
    )
    async with agent(there) as one:
        task, _ = await one.ask(new_text_message("why?", role=Role.ROLE_USER))
        assert json.loads(task.artifacts[0].parts[0].text) == {"q": "why?"}


async def test_what_cannot_be_published_is_rejected_with_the_reason(pat: Client, there: list[str]) -> None:
    async with agent(there) as one:
        task, states = await one.ask(asks("nobody"))
        assert states[-1] == "REJECTED"
        assert "no team 'nobody' on this board" in get_message_text(task.status.message)
        task, states = await one.ask(new_text_message("hello", role=Role.ROLE_USER))
        assert 'a JSON part {"team": ..., "input": ...} is wanted' in get_message_text(task.status.message)


async def test_run_that_asks_people_waits_for_them_and_goes_on(pat: Client, there: list[str]) -> None:
    async with agent(there) as one:
        task, states = await one.ask(asks("choice"))
        assert states[-1] == "INPUT_REQUIRED"
        assert "which colour?" in get_message_text(task.status.message)
        run = run_of(task.id)
        gate = (await run_until(pat.board, run, lambda state: state.open_gates)).state.open_gates["colour"]
        await Client(pat.board, "ann").answer(run, "colour", gate.digest, "red")
        await run_until(pat.board, run, lambda state: state.end)
        again = new_text_message("and now?", role=Role.ROLE_USER, task_id=task.id, context_id=task.context_id)
        task, states = await one.ask(again)
        assert states[-1] == "COMPLETED"
        assert json.loads(task.artifacts[0].parts[0].text) == {"colour": "red"}


async def test_task_that_is_cancelled_cancels_the_run(pat: Client, there: list[str]) -> None:
    async with agent(there) as one:
        task, _ = await one.ask(asks("choice"))
        cancelled = await one.client.cancel_task(CancelTaskRequest(id=task.id))
        assert STATES[cancelled.status.state] == "CANCELED"
    folded = await run_until(pat.board, run_of(task.id), lambda state: state.end)
    assert folded.state.end == "CANCELLED"
    assert "asked for over A2A" in folded.state.reason


async def test_page_of_another_site_cannot_use_it(pat: Client, there: list[str]) -> None:
    async with agent(there) as one, httpx.AsyncClient(trust_env=False) as http:
        for headers in ({"Host": "evil.example"}, {"Origin": "https://evil.example"}, {"Origin": "null"}):
            assert (await http.post(f"{one.url}/a2a", json={}, headers=headers)).status_code == 403
        assert (await http.get(f"{one.url}/.well-known/agent-card.json")).status_code == 200
