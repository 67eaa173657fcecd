"""`blackboard demo`: the licence audit of an environment, from a goal to a result, on a board of its own.

It is made of the commands that anybody would type; what they print is shown.
"""

import asyncio
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

BLACKBOARD = [sys.executable, "-m", "blackboard.cli"]


@click.command()
@click.option("--path", default=sys.prefix, help="The environment to audit [default: the running one].")
@click.option("--out", default="licences-report", show_default=True, help="Folder for the report; it is replaced.")
def demo(path: str, out: str) -> None:
    """Audit the licences of a Python environment: start a board, publish the goal, approve the report, show the result,
    explain a conflict, rebuild the run from the log and compare.
    """
    began = time.monotonic()
    up = subprocess.Popen([*BLACKBOARD, "up", "licences", "--json"], stdout=subprocess.PIPE, text=True)
    try:
        url = _wait_for_team(up)
        threading.Thread(target=lambda: list(_lines(up)), daemon=True).start()  # a full pipe would stop it
        figure = _audit(["--nats", url], path, out)
    finally:
        up.terminate()
        up.wait()
    print(f"\ndemo: {figure}, {time.monotonic() - began:.1f} s")


def _wait_for_team(up: "subprocess.Popen[str]") -> str:
    """Print who is there, role by role; the server's address once the team is in the catalogue."""
    print("Starting a server, a supervisor and the team's workers:")
    url = ""
    for process, line in _lines(up):
        if line.startswith("pid "):
            print(f"  {process:<11} {line}", flush=True)
        if process == "server":
            url = next((word for word in line.split() if word.startswith("nats://")), url)
        if "playbook" in line and process == "licences":
            return url
    sys.exit(f"blackboard: the board did not start; `blackboard doctor` may say why (exit code {up.wait()})")


def _lines(up: "subprocess.Popen[str]") -> Iterator[tuple[str, str]]:
    assert up.stdout is not None
    for line in up.stdout:
        record = json.loads(line)
        if "error" in record:
            sys.exit(f"blackboard: {record['error']}")
        yield record.get("process", ""), record.get("line", "")


def _audit(options: list[str], path: str, out: str) -> str:
    """The run, from goal to report; what it comes to in a few words."""
    goal = ["licences", f"path={path}", f"out={out}", "overwrite=true"]
    published = _show("publish", *goal, "--wait", "--no-input", *options, expected=(0, 7))
    run = published.split("\n")[0]
    if _json("show", run, *options)["phase"] == "NEEDS_INPUT":
        _show("approve", run, "--yes", *options)
        _show("watch", run, *options)
    rows = asyncio.run(_rows(options[1], _json("why", run, "policy", *options)["value"]["rows"]["sha256"]))
    _print_table(rows)
    for written in _json("show", run, *options)["result"]["written"]:
        print(f"  {written}  {Path(written).stat().st_size} bytes")
    conflicts = [row["name"] for row in rows if row["relation"] == "conflict"]
    for name in conflicts[:1]:
        _show("why", run, f"licence.{name}", *options)
    _show("rebuild", run, "--check", *options)
    live, rebuilt = asyncio.run(_live_state(options[1], run)), _json("rebuild", run, *options)["state"]
    if live != rebuilt:
        sys.exit(f"blackboard: the supervisor held the state {live}, the log gives {rebuilt}")
    print(f"state as the supervisor held it  {live}\nstate as rebuilt from the log    {rebuilt}")
    return f"{len(rows)} distributions, {len(conflicts)} conflict, live state = rebuilt state"


def _show(*arguments: str, expected: tuple[int, ...] = (0,)) -> str:
    """Run a command as one would type it; what it prints is shown and returned."""
    shown = " ".join(arguments[: arguments.index("--nats")])
    print(f"\n$ blackboard {shown}", flush=True)
    done = subprocess.run([*BLACKBOARD, *arguments], stdout=subprocess.PIPE, text=True)
    print(done.stdout, end="", flush=True)
    if done.returncode not in expected:
        sys.exit(f"blackboard: `{shown}` ended with exit code {done.returncode}")
    return done.stdout


def _json(*arguments: str) -> dict[str, Any]:
    printed = subprocess.run([*BLACKBOARD, *arguments, "--json"], stdout=subprocess.PIPE, text=True, check=True)
    answer: dict[str, Any] = json.loads(printed.stdout)
    return answer


async def _rows(url: str, sha256: str) -> list[dict[str, Any]]:
    """The audit's rows, from the blob that the fact `policy` names."""
    from blackboard.settings import load

    async with load(url).open("demo") as board:
        rows: list[dict[str, Any]] = json.loads(await board.blobs.get(sha256))
    return rows


async def _live_state(url: str, run: str) -> str:
    """The digest of the state that the supervisor held when it ended the run."""
    from blackboard.settings import load

    async with load(url).open("demo") as board:
        last = await board.log.last(board.subjects.fact(run))
    return (last.headers or {}).get("state", "none") if last else "none"


def _print_table(rows: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("distribution", "licence", "decided from", "relation", "verdict", box=None, pad_edge=False)
    for row in rows:
        sources = ", ".join(source.removeprefix("licence-") for source in row["decided_from"])
        cells = (f"{row['name']} {row['version']}", row["licence"], sources, row["relation"], row["verdict"])
        table.add_row(*cells, style=None if row["verdict"] == "allow" else "bold")
    print()
    Console(width=None if sys.stdout.isatty() else 120).print(table)
