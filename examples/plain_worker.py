"""A specialist with a NATS client and JSON alone, for whoever writes one in another language. It counts the words of
a text, and imports nothing of this project. The numbers are those of docs/protocol.md, "What a specialist does".

python examples/plain_worker.py nats://127.0.0.1:4222 plain-words.creds [BOARD]

Its contract is plain_worker.json, which the operator puts on the board.
"""

import asyncio
import base64
import json
import secrets
import sys
from pathlib import Path

import nats
from nats.errors import Error as Failed  # also: nothing to do, or the queue is being made anew

NAME = "plain-words"


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


def inbox_of(credentials):
    """1. Where it may hear answers: below its public key, which the signed part of its credentials names."""
    lines = Path(credentials).read_text().splitlines()
    claims = lines[1].split(".")[1]
    return f"_INBOX.{json.loads(base64.urlsafe_b64decode(claims + '=='))['sub']}".encode()


async def say(error):
    """In a line: the client itself prints a traceback, at each try to reach a server that is away."""
    print(f"{NAME}: {error or type(error).__name__}", file=sys.stderr, flush=True)


async def connected(url, credentials):
    """1. With its identity, and JetStream under the name that its account has for it."""
    options = {"name": NAME, "max_reconnect_attempts": -1, "error_cb": say}
    if not credentials:  # a server that asks nobody
        return (await nats.connect(url, **options)).jetstream()
    client = await nats.connect(url, user_credentials=credentials, inbox_prefix=inbox_of(credentials), **options)
    return client.jetstream(domain="bus")


async def main(url, credentials="", board="main"):
    js = await connected(url, credentials)
    print(f"{NAME} works on board {board}", flush=True)
    tasks = await js.pull_subscribe_bind(NAME, f"TASKS_{board}")
    while True:
        try:
            for message in await tasks.fetch(1, timeout=5):
                await handle(js, message, board)
        except Failed:
            await asyncio.sleep(0.2)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
