"""The floor: goal -> 8 tasks -> reduce -> result as somebody writes it by hand on JetStream, with nothing of ours.

One log in files, one work queue in memory; the coordinator keeps dicts. All is stored before anything follows from it,
and a task is acknowledged when its end is stored. A run is 13 messages on the log and 9 tasks.
"""

import asyncio
import json
import secrets
import sys
from typing import Any

import nats
import uvloop
from nats.aio.client import Client
from nats.aio.msg import Msg


class Floor:
    """`batch_from` 0: messages go at once. Else they gather while others are stored; so many are one atomic batch."""

    def __init__(self, nc: Client, name: str, batch_from: int, tasks: asyncio.TaskGroup) -> None:
        self.nc, self.name, self.batch_from, self.spawn = nc, name, batch_from, tasks.create_task
        self.inbox, self.asked, self.flushing = nc.new_inbox(), 0, False
        self.answers: dict[str, asyncio.Future[Msg]] = {}
        self.waiting: list[tuple[str, bytes, dict[str, str], asyncio.Future[int]]] = []

    async def read(self, kinds: str, hear: Any) -> None:
        await self.nc.jetstream().subscribe(f"{self.name}.{kinds}", stream=self.name, cb=hear, ordered_consumer=True)

    async def on_answer(self, msg: Msg) -> None:
        self.answers.pop(msg.subject.rpartition(".")[2]).set_result(msg)

    async def ask(self, subject: str, data: bytes, headers: dict[str, str] | None = None) -> asyncio.Future[Msg]:
        self.asked += 1
        token = f"{self.asked:x}"
        answer = self.answers[token] = asyncio.get_running_loop().create_future()
        await self.nc.publish(subject, data, f"{self.inbox}.{token}", headers or None)
        return answer

    async def append(self, kind: str, run: str, body: Any, expected: int | None = None) -> int:
        subject, data = f"{self.name}.{kind}.{run}", json.dumps(body).encode()
        headers = {} if expected is None else {"Nats-Expected-Last-Subject-Sequence": str(expected)}
        if not self.batch_from:
            return sequence(await (await self.ask(subject, data, headers)))
        stored: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.waiting.append((subject, data, headers, stored))
        if not self.flushing:
            self.flushing = True
            self.spawn(self.flush())
        return await stored

    async def flush(self) -> None:
        while self.waiting:
            part, self.waiting = self.waiting[:1000], self.waiting[1000:]
            batch_id = secrets.token_hex(8) if len(part) >= self.batch_from else ""
            answers: list[asyncio.Future[Msg]] = []
            for number, (subject, data, headers, _) in enumerate(part, start=1):
                if batch_id:
                    headers |= {"Nats-Batch-Id": batch_id, "Nats-Batch-Sequence": str(number)}
                    headers.update({"Nats-Batch-Commit": "1"} if number == len(part) else {})
                if batch_id and 1 < number < len(part):
                    await self.nc.publish(subject, data, headers=headers)
                else:
                    answers.append(await self.ask(subject, data, headers))
            last = sequence(await answers[-1])
            for number, append in enumerate(part):
                append[3].set_result(last - len(part) + 1 + number if batch_id else sequence(await answers[number]))
        self.flushing = False


def sequence(answer: Msg) -> int:
    said = json.loads(answer.data)
    if "error" in said:
        raise RuntimeError(said["error"])
    return int(said["seq"])


STREAMS = {
    "STREAM.CREATE.%": '{"name": "%", "subjects": ["%.>"], "storage": "file", "allow_atomic": true}',
    "STREAM.CREATE.%-task": """{"name": "%-task", "subjects": ["%-task.>"], "storage": "memory", "discard": "new",
        "retention": "workqueue", "max_msgs_per_subject": 1, "discard_new_per_subject": true}""",
    "CONSUMER.CREATE.%-task.worker": """{"stream_name": "%-task", "config": {"durable_name": "worker",
        "ack_policy": "explicit", "max_ack_pending": 100000}}""",
}
"""What the flow named `%` needs: requests of the JetStream API."""


async def coordinate(floor: Floor, slots: int) -> None:
    ends: dict[str, dict[str, int]] = {}
    last: dict[str, int] = {}

    async def dispatch(run: str, tasks: dict[str, list[int]]) -> None:
        last[run] = await floor.append("fact", run, {"dispatched": tasks}, last.get(run, 0))
        bodies = {task: json.dumps({"run": run, "task": task, "numbers": tasks[task]}).encode() for task in tasks}
        for put in [await floor.ask(f"{floor.name}-task.{run}.{task}", bodies[task]) for task in tasks]:
            sequence(await put)

    async def on_input(msg: Msg) -> None:
        (_, _, kind, run), body = msg.subject.split("."), json.loads(msg.data)
        if kind == "goal" and run not in ends:
            ends[run] = {}
            floor.spawn(dispatch(run, {f"part-{i}": [number] for i, number in enumerate(body["numbers"])}))
        elif kind == "end" and body["task"] not in ends[run]:
            ends[run][body["task"]] = body["total"]
            if body["task"] == "total":
                floor.spawn(floor.append("result", run, {"total": body["total"]}, 0))
            elif len(ends[run]) == 8:
                floor.spawn(dispatch(run, {"total": list(ends[run].values())}))

    await floor.read("in.>", on_input)


async def work(floor: Floor, slots: int) -> None:
    inbox, free = floor.nc.new_inbox(), slots

    async def pull() -> None:
        nonlocal free
        body, free = json.dumps({"batch": free}).encode(), 0
        await floor.nc.publish(f"$JS.API.CONSUMER.MSG.NEXT.{floor.name}-task.worker", body, inbox)

    async def handle(msg: Msg) -> None:
        nonlocal free
        task = json.loads(msg.data)
        end = {"task": task["task"], "execution": secrets.token_hex(8), "total": sum(task["numbers"])}
        await floor.append("in.end", task["run"], end)
        await (await floor.ask(msg.reply, b"+ACK"))
        free += 1
        if free >= slots // 2:
            await pull()

    async def on_task(msg: Msg) -> None:
        floor.spawn(handle(msg))

    await floor.nc.subscribe(inbox, cb=on_task)
    await pull()


async def main(role: str, url: str, name: str, batch_from: str, slots: str) -> None:
    async with asyncio.TaskGroup() as tasks:
        nc = await nats.connect(url)
        floor = Floor(nc, name, int(batch_from), tasks)
        await nc.subscribe(f"{floor.inbox}.*", cb=floor.on_answer)
        await {"coordinator": coordinate, "worker": work}[role](floor, int(slots))
        await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(main(*sys.argv[1:]))
