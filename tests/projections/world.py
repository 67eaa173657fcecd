"""A board in memory with a supervisor and small workers, which bring about real histories."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from blackboard.board import Board
from blackboard.client import Client
from blackboard.log import Message
from blackboard.memory import MemoryBlobs, MemoryLog, MemoryQueue
from blackboard.queue import QueueGone
from projections.history import Folded
from projections.live import follow
from schemas.contracts import Contract
from schemas.events import Claim, Silence
from schemas.inputs import Ended
from schemas.playbooks import Playbook
from schemas.subjects import Subjects
from schemas.tasks import decode_task
from schemas.usage import Usage
from supervisor.service import Supervisor

Answer = Callable[[str, dict[str, Any]], Any]
"""(specialist, input of the item) -> the value, or a Silence."""

TEAM = {
    "team": "survey",
    "input": {"type": "object", "required": ["names"]},
    "returns": {"total": "facts.total"},
    "steps": [
        {
            "id": "each",
            "capability": "look",
            "specialist": "all",
            "for_each": "input.names",
            "input": {"name": "item"},
            "fact": "seen.{item}",
            "merge": {"policy": "priority", "order": ["alice", "bob"]},
            "silent": ["LOW_CONFIDENCE"],
        },
        {"id": "total", "needs": ["each"], "capability": "add", "input": {"seen": "facts.seen"}},
    ],
}
PARENT = {
    "team": "outer",
    "returns": {"inner": "facts.inner"},
    "steps": [{"id": "inner", "team": "survey", "input": {"names": "input.names"}}],
}


def answer(specialist: str, item: dict[str, Any]) -> Any:
    """alice and bob agree on all names but `x`; carol knows nothing of `y`."""
    if specialist == "adder":
        return len(item["seen"])
    name = item["name"]
    if specialist == "carol" and name == "y":
        return Silence("", "LOW_CONFIDENCE", "never heard of it")
    return f"{name}?" if specialist == "bob" and name == "x" else name.upper()


def memory_board(log: MemoryLog | None = None, board: str = "main") -> Board:
    subjects = Subjects(board)
    return Board(subjects, log or MemoryLog(subjects), MemoryQueue(), MemoryBlobs())


async def teach(board: Board, *, adder: bool = True) -> None:
    client = Client(board, "teacher")
    for name in ("alice", "bob", "carol"):
        await client.offer(Contract(specialist=name, offers=["look"]))
    if adder:
        await client.offer(Contract(specialist="adder", offers=["add"]))
    await client.teach(Playbook.model_validate(TEAM))
    await client.teach(Playbook.model_validate(PARENT))


async def work(board: Board, name: str, answering: Answer, stop: asyncio.Event) -> None:
    """Serve the tasks of one specialist until `stop`."""
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
        said = {item.key: answering(name, item.input) for item in task.items}
        end = Ended(
            task=task.task,
            attempt=task.attempt,
            execution=f"{name}-{task.task}-{task.attempt}",
            usage=Usage(input_tokens=10, output_tokens=1),
            claims=tuple(Claim(k, v, 0.5) for k, v in said.items() if not isinstance(v, Silence)),
            silences=tuple(Silence(k, v.code, v.message) for k, v in said.items() if isinstance(v, Silence)),
        )
        await client.observe(task.run, end)
        await delivery.ack()


@asynccontextmanager
async def serving(board: Board, *workers: str, answering: Answer = answer) -> AsyncIterator[Supervisor]:
    """A supervisor and workers at work on `board`."""
    stop, supervisor = asyncio.Event(), Supervisor(board, mend_s=0.2)
    names = workers or ("alice", "bob", "carol", "adder")
    await board.queue.ensure(names)
    tasks = [asyncio.create_task(work(board, name, answering, stop)) for name in names]
    tasks.append(asyncio.create_task(supervisor.run(stop)))
    try:
        yield supervisor
    finally:
        stop.set()
        await asyncio.gather(*tasks)


async def ended(board: Board, run: str) -> Folded:
    """The run when it has ended."""
    last = None
    async for folded in follow(board, run):
        last = folded
    assert last is not None
    assert last.state.end
    return last


async def finished_board(*runs: str, names: tuple[str, ...] = ("x", "y", "z")) -> Board:
    """A board on which `runs` of the team have ended."""
    board = memory_board()
    await teach(board)
    async with serving(board):
        client = Client(board, "me")
        for run in runs:
            await client.publish("survey", {"names": list(names)}, run)
        for run in runs:
            await ended(board, run)
    return board


async def messages_of(board: Board, *subjects: str) -> list[Message]:
    return [message async for batch in board.log.scan(subjects) for message in batch]
