"""Specialists that say what a test tells them to, and a supervisor, at work on a board in this process."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from blackboard.board import Board
from blackboard.client import Client
from blackboard.queue import QueueGone
from schemas.contracts import Contract
from schemas.events import Claim
from schemas.inputs import Ended, Observation, ToolCalled
from schemas.playbooks import Playbook
from schemas.tasks import Task, decode_task
from schemas.usage import Usage
from supervisor.service import Supervisor

Answering = Callable[[Task], Sequence[dict[str, Any]]]
"""What a specialist says of a task: observations as fields, the last one its end."""


class Scripted(NamedTuple):
    """A specialist: what it says, and the fields of its contract. Without `says` it is attached and never works."""

    says: Answering | None
    contract: dict[str, Any]


def done(task: Task, value: Any, **more: Any) -> dict[str, Any]:
    """The end of a task with this value under each key."""
    return {"claims": tuple(Claim(item.key, value) for item in task.items)} | more


@asynccontextmanager
async def at_work(
    board: Board, specialists: Mapping[str, Scripted], teams: Sequence[dict[str, Any]]
) -> AsyncIterator[Client]:
    """The client of who publishes, `pat`."""
    client, stop = Client(board, "pat"), asyncio.Event()
    for name, scripted in specialists.items():
        await client.offer(Contract.model_validate({"specialist": name, "backoff_s": 0, **scripted.contract}))
    for team in teams:
        await client.teach(Playbook.model_validate(team))
    await board.queue.ensure(list(specialists))
    working = [
        asyncio.create_task(_work(board, name, scripted.says, stop))
        for name, scripted in specialists.items()
        if scripted.says
    ]
    working.append(asyncio.create_task(Supervisor(board, mend_s=0.2).run(stop)))
    try:
        yield client
    finally:
        stop.set()
        await asyncio.gather(*working)


async def _work(board: Board, name: str, says: Answering, stop: asyncio.Event) -> None:
    client = Client(board, name)
    while not stop.is_set():
        try:
            delivery = await board.queue.pull(name, 0.05)
        except QueueGone:
            await asyncio.sleep(0.01)
            continue
        if delivery is None:
            continue
        task = decode_task(delivery.data)
        for said in says(task):
            await client.observe(task.run, _observation(task, name, said))
        await delivery.ack()


def _observation(task: Task, name: str, said: dict[str, Any]) -> Observation:
    shared = {"task": task.task, "attempt": task.attempt, "execution": f"{name}-{task.task}-{task.attempt}"}
    if "tool" in said:
        return ToolCalled(**shared, **said)
    return Ended(**shared, **{"usage": Usage(input_tokens=10)} | said)
