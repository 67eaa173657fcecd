"""`blackboard demo`: the licence audit of an environment, from a goal to a result, on a board of its own.

It is made of the commands that anybody would type; what they print is shown.
"""

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

START_S = 30.0
"""Seconds for server, supervisor and workers to be there."""
BLACKBOARD = [sys.executable, "-m", "blackboard.cli"]


@click.command()
@click.option("--path", default=sys.prefix, help="The environment to audit [default: the running one].")
@click.option("--out", default="licences-report", show_default=True, help="Folder for the report.")
def demo(path: str, out: str) -> None:
    """Audit the licences of a Python environment: start a board, publish the goal, show the result, explain a conflict,
    rebuild the run from the log and compare.
    """
    began = time.monotonic()
    up = subprocess.Popen([*BLACKBOARD, "up", "licences", "--json"], stdout=subprocess.PIPE, text=True)
    try:
        url = _wait_for_team(up)
        figure = _audit(url, path, out)
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
            url = next(word for word in line.split() if word.startswith("nats://"))
        if "playbook" in line and process == "licences":
            return url
    sys.exit(f"blackboard: the board did not start; see `blackboard doctor` (exit code {up.wait()})")


def _lines(up: "subprocess.Popen[str]") -> Iterator[tuple[str, str]]:
    assert up.stdout is not None
    for line in up.stdout:
        record = json.loads(line)
        yield record.get("process", ""), record.get("line", "")


def _audit(url: str, path: str, out: str) -> str:
    options = ["--nats", url]
    command = ["publish", "licences", f"path={path}", f"out={out}", "--wait"]
    print(f"\n$ blackboard {' '.join(command)}", flush=True)
    published = subprocess.run([*BLACKBOARD, *command, *options], stdout=subprocess.PIPE, text=True)
    run = published.stdout.split("\n")[0]
    shown = _json("show", run, *options)
    if published.returncode not in {0, 3}:
        sys.exit(f"blackboard: run {run} ended {shown['end']}: {shown['reason']}")
    verdicts = _json("why", run, "policy", *options)["value"]
    rows = asyncio.run(_rows(url, verdicts["rows"]["sha256"]))
    _print_table(rows)
    for written in shown["result"]["written"]:
        print(f"  {written}  {Path(written).stat().st_size} bytes")
    conflicts = [row["name"] for row in rows if row["relation"] == "conflict"]
    for name in conflicts[:1]:
        _show("why", run, f"licence.{name}", *options)
    _show("rebuild", run, "--check", *options)
    rebuilt = _json("rebuild", run, "--check", *options)
    digest = rebuilt["state"][:16]
    return f"{len(rows)} distributions, {len(conflicts)} conflict(s), live state = rebuilt state ({digest})"


def _show(*arguments: str) -> None:
    shown = " ".join(arguments[: arguments.index("--nats")])
    print(f"\n$ blackboard {shown}", flush=True)
    if (code := subprocess.run([*BLACKBOARD, *arguments]).returncode) != 0:
        sys.exit(f"blackboard: `{shown}` ended with exit code {code}")


def _json(*arguments: str) -> dict[str, Any]:
    printed = subprocess.run([*BLACKBOARD, *arguments, "--json"], stdout=subprocess.PIPE, text=True, check=True)
    answer: dict[str, Any] = json.loads(printed.stdout)
    return answer


async def _rows(url: str, sha256: str) -> list[dict[str, Any]]:
    """The audit's rows, from the blob that the fact `policy` names."""
    from blackboard.board import open_board

    async with open_board(url, name="demo") as board:
        rows: list[dict[str, Any]] = json.loads(await board.blobs.get(sha256))
    return rows


def _print_table(rows: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("distribution", "licence", "decided from", "relation", "verdict", box=None, pad_edge=False)
    for row in rows:
        sources = ", ".join(source.removeprefix("licence-") for source in row["decided_from"])
        style = None if row["verdict"] == "allow" else "bold"
        table.add_row(
            f"{row['name']} {row['version']}", row["licence"], sources, row["relation"], row["verdict"], style=style
        )
    print()
    Console(width=None if sys.stdout.isatty() else 120).print(table)
