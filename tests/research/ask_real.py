"""`python -m tests.research.ask_real`: `blackboard ask` over this repository's own documentation.

A small real model answers, behind a real server; both are started here and ended by their process ids. The last line is
the figure.

The model is too small for sense. What is looked at: how the run ends, that each citation of the result stands in the
documents, and that the tokens in the state are those that the server counted, to the last one.
"""

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from random import Random
from typing import Any

from blackboard.server import EmbeddedServer
from specialists.research.chunks import Chunk, chunks
from specialists.research.documents import listing, read
from tests.end_to_end.support import COMMAND, environment_with
from tests.models.endpoint import served
from tests.models.faults import Proxy
from tests.models.real_server import NAME, real_model

DOCS = Path(__file__).parents[2] / "docs"
QUESTIONS = (
    "Which exit code does a denied gate give?",
    "How large may one value be?",
    "What is the capital of Mongolia?",
)
WITHIN_S = 900.0
TABLE = """
[reasoner]
name = "{name}"
base_url = "{url}"
temperature = 0
seed = 1
max_tokens = 300
timeout_s = 600
"""


async def run(*words: str, within_s: float = WITHIN_S, **environment: str) -> tuple[int, Any]:
    """Exit code and JSON of a command; what it tells on the way is shown."""
    process = await asyncio.create_subprocess_exec(
        *COMMAND, *words, "--json", env=environment_with(**environment), stdout=asyncio.subprocess.PIPE
    )
    try:
        out, _ = await asyncio.wait_for(process.communicate(), within_s)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return process.returncode or 0, json.loads(out)


def pieces() -> dict[str, Chunk]:
    return {one.id: one for file in listing(str(DOCS)).files for one in chunks(file.name, read(file))}


async def asked(question: str, url: str, place: Path) -> tuple[bool, int, int, int]:
    """One question: whether it is DONE and its books are right, its citations, those that do not exist, its tokens."""
    began = time.monotonic()
    proxy = Proxy(url, Random(1), 0.0)
    with EmbeddedServer(place / "server") as server, served(proxy.handle) as counted:
        (place / "models.toml").write_text(TABLE.format(name=NAME, url=counted))
        environment = {"BLACKBOARD_MODELS": str(place / "models.toml"), "BLACKBOARD_CACHE": str(place / "cache")}
        there = ["--nats", server.url]
        up = await asyncio.create_subprocess_exec(
            *COMMAND, "up", "research", *there, env=environment_with(**environment), stdout=asyncio.subprocess.PIPE
        )
        try:
            await until_attached(up)
            code, answer = await run("ask", question, "--docs", str(DOCS), *there, **environment)
            _, shown = await run("show", answer["run"], *there, **environment)
        finally:
            up.terminate()
            await up.wait()
    known = pieces()
    cited = [one for sentence in answer["result"]["sentences"] for one in sentence["citations"]]
    wrong = [one for one in cited if one["id"] not in known or one["quote"] not in known[one["id"]].text]
    used = [shown["usage"]["input_tokens"], shown["usage"]["output_tokens"]]
    right = (code, answer["end"]) == (0, "DONE") and used == proxy.used
    print(
        f"{question}\n  {answer['end']}, {answer['result']['mode']}, {len(cited)} citations, {len(wrong)} do not exist"
    )
    print(f"  state {used[0]} + {used[1]} tokens, server {proxy.used[0]} + {proxy.used[1]}, {len(proxy.faults)} calls")
    print(f"  {len(answer['result']['dropped'])} sentences left out, {time.monotonic() - began:.0f} s", flush=True)
    return right, len(cited), len(wrong), sum(used)


async def until_attached(process: asyncio.subprocess.Process) -> None:
    """Once the team is on the board; what is said after that is not read, and fits into a pipe."""
    assert process.stdout is not None
    async with asyncio.timeout(60):
        while line := await process.stdout.readline():
            if b"attached to board" in line:
                return
    raise RuntimeError("the board did not start")


async def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--questions", type=int, default=len(QUESTIONS), help="how many of them")
    questions = QUESTIONS[: parser.parse_args().questions]
    done = cited = wrong = tokens = 0
    with real_model() as url:
        for question in questions:
            with tempfile.TemporaryDirectory() as place:
                right, citations, missing, used = await asked(question, url, Path(place))
            done, cited, wrong, tokens = done + right, cited + citations, wrong + missing, tokens + used
    print(
        f"ask-real: {done} of {len(questions)} runs DONE with the tokens that the server counted ({tokens}), "
        f"{cited} citations, {wrong} that do not exist"
    )
    return 0 if (done, wrong) == (len(questions), 0) and cited else 1


if __name__ == "__main__":
    os.environ.pop("BLACKBOARD_MODEL", None)
    sys.exit(asyncio.run(main()))
