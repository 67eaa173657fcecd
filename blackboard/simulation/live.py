"""The same world as a simulation begins with, in real time and with nothing going wrong on purpose: a board in memory,
one supervisor, a worker for each specialist, and people who answer at once."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

from blackboard.board import Board
from blackboard.client import Client
from blackboard.log import Message
from blackboard.memory import MemoryBlobs, MemoryLog
from blackboard.memory_queue import MemoryQueue
from blackboard.simulation.parts import Parts, Person, Plan
from schemas.codec import ends_run
from schemas.subjects import Subjects


async def live(plan: Plan, parts: Parts, within_s: float) -> list[Message]:
    """The log, once all published runs have ended. Raises TimeoutError."""
    subjects = Subjects()
    log = MemoryLog(subjects)
    queue, blobs = MemoryQueue(), MemoryBlobs()
    stop, news = asyncio.Event(), asyncio.Event()
    wanted = {goal.run for goal in plan.goals}

    def board() -> Board:
        return Board(subjects, log.connect(), queue, blobs)

    async def watch(messages: Sequence[Message]) -> None:
        for message in messages:
            if ends_run(message.data):
                wanted.discard(subjects.parse(message.subject).run)
        news.set()

    working = [
        asyncio.ensure_future(parts.supervisor(board()).run(stop)),
        *(asyncio.ensure_future(parts.worker(board(), [one.specialist]).run(stop)) for one in plan.staff),
    ]
    watching = await log.subscribe(watch, [subjects.every("fact")])
    asked = [await log.subscribe(_answers(person, board()), [subjects.every("fact")]) for person in plan.people]
    try:
        async with asyncio.timeout(within_s):
            await _published(plan, board())
            while wanted:
                news.clear()
                await news.wait()
    finally:
        stop.set()
        for subscription in (watching, *asked):
            await subscription.close()
        await asyncio.gather(*working, return_exceptions=True)
    return [message async for messages in log.scan() for message in messages]


async def _published(plan: Plan, board: Board) -> None:
    for playbook in plan.playbooks:
        await Client(board, "ann").teach(playbook)
    for one in plan.staff:
        await Client(board, one.specialist.name).offer(one.specialist.contract())
    for goal in plan.goals:
        await Client(board, goal.by).publish(
            goal.team, dict(goal.input), goal.run, goal.approve, budget=goal.budget, deadline_s=goal.deadline_s
        )


def _answers(person: Person, board: Board) -> Any:
    client = Client(board, person.name)

    async def hear(messages: Sequence[Message]) -> None:
        for message in messages:
            if person.says == "nothing" or b'"gate_opened"' not in message.data:
                continue
            run = board.subjects.parse(message.subject).run
            for event in json.loads(message.data)["events"]:
                if event["type"] == "gate_opened":
                    await _say(client, person, run, event)

    return hear


async def _say(client: Client, person: Person, run: str, event: dict[str, Any]) -> None:
    gate, digest = event["gate"], event["digest"]
    if person.says == "deny":
        await client.deny(run, gate, digest, "not like that")
    elif event.get("schema") is None:
        await client.approve(run, gate, digest)
    else:
        await client.answer(run, gate, digest, person.value)
