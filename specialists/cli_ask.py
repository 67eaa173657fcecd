"""`blackboard ask`: a question about a folder of documents, on a board of its own or on one that runs.

Where no board runs here, it starts one for as long as it needs it; what happened stays in its folder. It is made of the
commands that anybody would type: `up` or `attach`, a goal, `watch`.
"""

import contextlib
import dataclasses
import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from blackboard.options import BoardOptions, board_options
from schemas.access import Role

BLACKBOARD = [sys.executable, "-m", "blackboard.cli"]
TEAM = "research"
START_S, STOP_S = 60.0, 20.0
"""For a board to be there; for its processes to end."""
DOING = {
    "passages": "searching the documents",
    "answer": "answering",
    "answer_review": "checking what is cited",
    "safety": "looking for what should not be shown",
    "report": "assembling the report",
}
"""What a step does, in words."""


@click.command()
@click.argument("question")
@click.option("--docs", default=".", show_default=True, metavar="DIR", help="The folder that is read.")
@click.option(
    "--model", metavar="NAME", help="The model that answers [default: $BLACKBOARD_MODEL, $BLACKBOARD_MODELS]."
)
@click.option("--no-model", is_flag=True, help="Ask no model, whatever is configured: sentences of the documents.")
@click.option(
    "--safety",
    type=click.Choice(["redact", "report", "refuse"]),
    default="redact",
    show_default=True,
    help="What becomes of secrets and personal data in the documents and the answer.",
)
@click.option(
    "--dir", "directory", default=".blackboard", show_default=True, help="Where a board of its own keeps its data."
)
@click.option("--budget", metavar="LIMITS", multiple=True, help="What the run may use: tokens=N, usd=X.")
@click.option("--deadline", metavar="TIME", help="When the run ends at the latest: 90s, 10m.")
@click.option("--no-input", is_flag=True, help="Exit with 7 when the run waits for a person.")
@board_options
def ask(
    question: str,
    docs: str,
    model: str | None,
    no_model: bool,
    safety: str,
    directory: str,
    options: BoardOptions,
    **limits: Any,
) -> None:
    """Answer QUESTION from the documents below --docs; each sentence cites where it stands.

    A board that runs here is used, with a worker of ours for as long as we need it; else one is started. With --nats
    the question goes to the team `research` of that board, and DIR is read where its worker runs.
    """
    from blackboard.cli_publish import read_budget, read_duration
    from blackboard.client import BadInput
    from specialists.models import BadModels

    try:
        read_budget(limits["budget"])
        if limits["deadline"] is not None:
            read_duration(limits["deadline"])
        environment = _environment(model, no_model, safety)
        goal = {"question": question, "path": _folder(docs, elsewhere=_named(options)), "safety": safety}
        if not question.strip():
            raise BadInput('the question is empty; write it in quotes: blackboard ask "how does ...?"')
        with _board(options, directory, environment) as (board, own):
            sys.exit(_answered(board, goal, docs, own=own, **limits))
    except (BadInput, BadModels) as error:
        options.fail(error)
    except KeyboardInterrupt:
        sys.exit(130)


def _folder(docs: str, elsewhere: bool) -> str:
    """The absolute path. Raises BadInput where there is no such folder on this machine, on which it will be read."""
    from blackboard.client import BadInput

    path = Path(docs).expanduser().absolute()
    if not elsewhere:
        try:
            there, folder = path.exists(), path.is_dir()
        except (OSError, ValueError) as error:
            raise BadInput(f"--docs: {docs!a} is no path: {error}") from None
        if not there:
            raise BadInput(f"--docs: there is no folder {docs}")
        if not folder:
            raise BadInput(f"--docs: {docs} is a file; name the folder that it is in")
        if not os.access(path, os.R_OK | os.X_OK):
            raise BadInput(f"--docs: the folder {docs} cannot be read: you may not")
    try:
        str(path).encode()
    except UnicodeEncodeError:
        raise BadInput(f"--docs: the path {docs!a} is not UTF-8, and cannot stand on the log; rename it") from None
    return str(path)


def _environment(model: str | None, no_model: bool, safety: str) -> dict[str, str]:
    """That of the processes that we start. Raises BadModels where the models that are configured cannot be used."""
    from specialists import models

    if model:
        os.environ[models.MODEL] = model
    if no_model:
        for name in (models.MODEL, models.MODELS):
            os.environ.pop(name, None)
    for name in ("reasoner", "critic"):
        models.model_of(name)
    shown = {"BLACKBOARD_LOG": "", "PYTHONUNBUFFERED": "1"}
    return {**os.environ, **shown, "BLACKBOARD_FILTER": "redact" if safety == "redact" else "off"}


def _named(options: BoardOptions) -> bool:
    """Whether the server was named: its workers may run on another machine."""
    return bool(options.nats or os.environ.get("BLACKBOARD_NATS"))


# --- a board ----------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _board(options: BoardOptions, directory: str, environment: dict[str, str]) -> Iterator[tuple[BoardOptions, bool]]:
    """A board with the team on it: the one that was named, one that runs here, or one of our own; and whether it is."""
    from blackboard.server import ServerError, find_url

    if _named(options):
        yield options, False
        return
    try:
        url = find_url()
    except ServerError:
        url = ""
    common = ["--board", options.board or "main", "--json"]
    command = ["attach", TEAM, "--nats", url] if url else ["up", TEAM, "--dir", directory]
    with _running([*BLACKBOARD, *command, *common], environment) as said:
        yield dataclasses.replace(options, nats=_attached(said, url)), not url


@contextlib.contextmanager
def _running(command: list[str], environment: dict[str, str]) -> Iterator["queue.SimpleQueue[dict[str, Any] | None]"]:
    """What the process says, line by line, None when it has ended. On Ctrl-C it is we who end it, once nobody needs it
    any more."""
    process = subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    said: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
    threading.Thread(target=_hear, args=(process, said), daemon=True).start()  # a full pipe would stop it
    try:
        yield said
    finally:
        process.terminate()
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _hear(process: "subprocess.Popen[str]", said: "queue.SimpleQueue[dict[str, Any] | None]") -> None:
    assert process.stdout is not None
    for line in process.stdout:
        try:
            record = json.loads(line)
        except ValueError:
            record = {"line": line.rstrip()}
        said.put(record if isinstance(record, dict) else {"line": line.rstrip()})
    said.put(None)


def _attached(said: "queue.SimpleQueue[dict[str, Any] | None]", url: str) -> str:
    """The server's address, once the team is there. Raises BadInput with the last words of a board that is not."""
    from blackboard.client import BadInput

    last, deadline = "", time.monotonic() + START_S
    while True:
        try:
            record = said.get(timeout=max(deadline - time.monotonic(), 0.01))
        except queue.Empty:
            raise BadInput(f"the board was not there within {START_S:g} s: {last}") from None
        if record is None:
            raise BadInput(f"the board did not start: {last}; `blackboard doctor` may say why")
        line = str(record.get("error") or record.get("line") or "")
        last = line or last
        if record.get("process") == "server":
            url = next((word for word in line.split() if word.startswith("nats://")), url)
        if record.get("event") == "attached" or (
            record.get("process") == TEAM and line.startswith("attached to board")
        ):
            return url


# --- the run ----------------------------------------------------------------------------------------------------------


def _answered(
    options: BoardOptions,
    goal: dict[str, Any],
    docs: str,
    own: bool,
    budget: tuple[str, ...],
    deadline: str | None,
    no_input: bool,
) -> int:
    """Publish the goal, follow the run, show what came of it. The exit code."""
    run = options.run(_published(options, goal, budget, deadline), role="client")
    settings = options.settings()
    command = [*BLACKBOARD, "watch", run, "--json", "--nats", settings.nats, "--board", settings.board]
    try:
        code, last = _watched([*command, *(["--no-input"] if no_input else [])], quiet=options.as_json)
    except KeyboardInterrupt:
        options.run(_cancelled(options, run))
        raise
    result = last.get("result")
    if options.as_json:
        shown = {name: last.get(name) for name in ("end", "code", "reason", "waits")}
        print(json.dumps({"run": run, **shown, "result": result, "exit_code": code}))
        return code
    if isinstance(result, dict):
        _show(result, docs)
    else:
        ended = dict.fromkeys(filter(None, [last.get("end") or "no answer yet", last.get("code")]))
        said = "; ".join(last.get("waits") or []) or last.get("reason") or ""
        click.echo(_clean(f"blackboard: {': '.join(ended)}: {said}"), err=True)
    first = "`blackboard up` and then " if own else ""
    click.echo(f"run {run}: {first}`blackboard show {run}` tells how it came about", err=True)
    return code


async def _published(options: BoardOptions, goal: dict[str, Any], budget: tuple[str, ...], deadline: str | None) -> str:
    from blackboard.cli_publish import read_budget, read_duration
    from blackboard.client import Client

    limits, deadline_s = read_budget(budget), read_duration(deadline) if deadline is not None else None
    settings = options.settings()
    async with settings.open("ask", Role.CONSOLE) as board:
        return await Client(board, settings.name).publish(TEAM, goal, budget=limits, deadline_s=deadline_s)


async def _cancelled(options: BoardOptions, run: str) -> None:
    from blackboard.client import Client

    settings = options.settings()
    async with settings.open("ask", Role.CONSOLE) as board:
        await Client(board, settings.name).cancel(run, "who asked does not wait any more")


def _watched(command: list[str], quiet: bool) -> tuple[int, dict[str, Any]]:
    """The exit code of `watch`, and its last line."""
    last: dict[str, Any] = {}
    told: set[str] = set()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            for line in process.stdout:
                last = json.loads(line)
                for step, settled in last.get("steps", {}).items():
                    if not quiet and step not in told and step != "answer" and not settled.endswith("/0"):
                        told.add(step)
                        click.echo(f"  {_doing(step)} ...", err=True)
                for note in () if quiet else last.get("notes", ()):
                    click.echo(f"  {_clean(note)}", err=True)
            process.wait()
        finally:
            process.kill()  # where we were interrupted: nobody needs it any more
    return process.returncode, last


def _doing(step: str) -> str:
    name, _, number = step.rpartition("_")
    if not number.isdigit():
        return DOING.get(step, step)
    return DOING.get(name, name) + (f", round {number}" if number != "1" else "")


def _show(result: dict[str, Any], docs: str) -> None:
    """The report for a terminal: what a reader should know first, the answer, where it stands, what was left out."""
    from specialists.research.report import NOTHING

    if note := result.get("note"):
        click.echo(f"{_clean(note)}\n")
    click.echo(_clean(result.get("answer") or NOTHING))
    for number, source in enumerate(result.get("sources", [])):
        place = os.path.join(docs, source["id"]) if docs != "." else source["id"]
        click.echo(
            ("\n" if not number else "")
            + _clean(f"[{source['number']}] {place}\n    {' '.join(source['quote'].split())}")
        )
    for number, one in enumerate(result.get("dropped", [])):
        click.echo(
            ("\nleft out, for want of support:\n" if not number else "") + _clean(f"  {one['text']}: {one['reason']}")
        )
    passed = result["documents"]["passed"]
    if passed:
        click.echo(
            "not read: " + _clean(", ".join(f"{count} {why}" for why, count in sorted(passed.items()))), err=True
        )
    if "[redacted: " in str(result.get("answer")):
        click.echo("what is redacted is shown with --safety report", err=True)
    for one in result.get("hidden", []):
        click.echo(f"the answer holds {one['count']} {_clean(one['kind'])}{', redacted' * one['redacted']}", err=True)


def _clean(text: str) -> str:
    """`text` without what a terminal would obey."""
    return "".join(one if one.isprintable() or one == "\n" else "?" for one in text)
