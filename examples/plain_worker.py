"""A specialist with a NATS client and JSON alone, for whoever writes one in another language. It counts the words of
a text, and imports nothing of this project. The numbers are those of docs/protocol.md, "What a specialist does".

python examples/plain_worker.py nats://127.0.0.1:4222 [BOARD]
"""

import asyncio
import json
import secrets
import sys

import nats
from nats.errors import Error as Failed  # also: nothing to do, or the queue is being made anew
from nats.js.errors import NotFoundError

NAME = "plain-words"
TEXT = {"type": "object", "required": ["text"], "properties": {"text": {"type": "string"}}}
COUNT = {"type": "object", "required": ["words"], "properties": {"words": {"type": "integer"}}}
CONTRACT = {"type": "contract", "specialist": NAME, "offers": ["word-count"], "input": TEXT, "output": COUNT}


def work(items):
    """4. For each item a value, or a code that says why there is none."""
    claims, silences = [], []
    for item in items:
        if words := len(item["input"]["text"].split()):
            claims.append({"key": item["key"], "value": {"words": words}})
        else:
            silences.append({"key": item["key"], "code": "LOW_CONFIDENCE", "message": "there is no text"})
    return {"claims": claims, "silences": silences}


async def beat(js, message, subject, attempt):
    """2. and 3. After a second the board is told that the work goes on, and the server every two."""
    await asyncio.sleep(1)
    await js.publish(subject, json.dumps({"type": "started", **attempt}).encode())
    while True:
        await message.in_progress()
        await asyncio.sleep(2)


async def handle(js, message, board):
    task = json.loads(message.data)
    subject = f"bb.{board}.obs.{NAME}.{task['run']}"
    attempt = {"task": task["task"], "attempt": task["attempt"], "execution": secrets.token_hex(8)}
    beating = asyncio.create_task(beat(js, message, subject, attempt))
    try:
        outcome = await asyncio.to_thread(work, task["items"])
    except Exception as error:
        outcome = {"code": "INTERNAL", "message": repr(error)[:1000]}
    ended = json.dumps({"type": "ended", **attempt, "usage": {}, **outcome}).encode()
    await store(js, subject, ended)
    beating.cancel()
    await message.ack()  # 6. only now


async def store(js, subject, ended):
    """5. The same bytes again, until the log has them."""
    while True:
        try:
            return await js.publish(subject, ended)
        except Failed:
            await asyncio.sleep(1)


async def offered(js, stream, subject):
    try:
        return (await js.get_last_msg(stream, subject)).data
    except NotFoundError:
        return None


async def main(url, board="main"):
    js = (await nats.connect(url, name=NAME, max_reconnect_attempts=-1)).jetstream()
    subject, contract = f"bb.{board}.contract.{NAME}", json.dumps(CONTRACT).encode()
    if await offered(js, f"BOARD_{board}", subject) != contract:  # 1. what it promises
        await js.publish(subject, contract)
    print(f"{NAME} is attached to board {board}", flush=True)
    tasks = await js.pull_subscribe_bind(NAME, f"TASKS_{board}")
    while True:
        try:
            for message in await tasks.fetch(1, timeout=5):
                await handle(js, message, board)
        except Failed:
            await asyncio.sleep(0.2)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
