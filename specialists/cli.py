"""`blackboard attach`, `detach` and `try`: specialists on a board, and one specialist without a board."""

import asyncio
import contextlib
import logging
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import click

from blackboard.options import BoardOptions, board_options
from schemas.access import Role

if TYPE_CHECKING:
    from blackboard.board import Board
    from blackboard.client import Client
    from blackboard.settings import Settings
    from specialists.filtering import Filter
    from specialists.loading import Loaded
    from specialists.specialist import Team
    from specialists.worker_events import WorkerEvent


@click.command()
@click.argument("targets", nargs=-1, required=True, metavar="TARGET...")
@click.option("--concurrency", type=click.IntRange(1, 1000), help="Tasks of each specialist at the same time.")
@click.option("--drain", "drain_s", metavar="SECONDS", type=click.FloatRange(0), default=10.0, show_default=True)
@click.option(
    "--filter",
    "mode",
    type=click.Choice(["off", "redact", "refuse"]),
    envvar="BLACKBOARD_FILTER",
    default="off",
    help="What becomes of secrets and personal data in what they append [default: $BLACKBOARD_FILTER, else off].",
)
@board_options
def attach(targets: tuple[str, ...], concurrency: int | None, drain_s: float, mode: str, options: BoardOptions) -> None:
    """Run specialists on the board until Ctrl-C. Tasks in work then have --drain seconds to end; what is left of them
    goes to other workers.

    TARGET is ./file.py:name, package.module:name or the name of a reference team (licences, research). Without :name it
    is the team of that module, else all of its specialists. A team brings its playbook along.
    """
    from specialists.loading import LoadError, load

    try:
        loaded = [load(target) for target in targets]
    except LoadError as error:
        options.fail(error)
    options.run(_attach(loaded, concurrency, drain_s, mode, options), role="worker")


async def _attach(
    loaded: "list[Loaded]", concurrency: int | None, drain_s: float, mode: str, options: BoardOptions
) -> None:
    from blackboard import logs
    from blackboard.client import Client
    from blackboard.log import LogError
    from specialists.worker import Worker

    lines = logs.set_up(logging.WARNING)  # the rest is said by `_say_event`
    settings = options.settings()
    stop = asyncio.Event()
    for received in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(received, stop.set)
    found = {id(one): one for target in loaded for one in target.specialists}
    names = [one.name for one in found.values()]
    async with settings.open("worker", Role.SPECIALIST, names=names) as board, _curated(settings, board) as catalogue:
        with contextlib.suppress(LogError):  # a specialist's identity does not read the log
            lines.log = board.log.id
        waiting = await _waiting(Client(catalogue, settings.name))
        worker = Worker(
            board,
            list(found.values()),
            concurrency=concurrency,
            drain_s=drain_s,
            filter=_filter(mode),
            on_event=lambda event: _say_event(options, event, waiting),
        )
        await worker.offer(catalogue)
        for team in [target.team for target in loaded if target.team]:  # last, so that its runs find everybody there
            await _teach(options, Client(catalogue, settings.name), team)
        options.say({"event": "attached", "board": settings.board}, f"attached to board {settings.board}")
        await worker.run(stop)
        options.say({"event": "detached", "board": settings.board}, "drained")


@asynccontextmanager
async def _curated(settings: "Settings", board: "Board") -> "AsyncIterator[Board]":
    """The board with the right to change its catalogue, where the operator's keys are at hand; else `board`."""
    if not settings.is_operators:
        yield board
        return
    async with settings.open("catalogue", Role.CURATOR) as curated:
        yield curated


async def _waiting(client: "Client") -> dict[str, list[str]]:
    from blackboard.log import NotPermitted

    try:
        return await client.waiting()
    except NotPermitted:
        return {}


async def _teach(options: BoardOptions, client: "Client", team: "Team") -> None:
    from blackboard.log import NotPermitted

    try:
        await client.teach(team.playbook)
        options.say({"event": "team", "team": team.name}, f"team {team.name}: its playbook is on the board")
    except NotPermitted:
        text = f"team {team.name}: its playbook is left as it is on the board; `blackboard offer` puts it there"
        options.say({"event": "team", "team": team.name, "playbook": "not permitted"}, text)


def _filter(mode: str) -> "Filter | None":
    """What stands between the specialists and the board, and between them and what this process logs."""
    if mode == "off":
        return None
    from specialists.filtering import Filter, RedactingFormatter

    for handler in logging.getLogger().handlers:
        handler.setFormatter(RedactingFormatter(handler.formatter))
    return Filter("refuse" if mode == "refuse" else "redact")


def _say_event(options: BoardOptions, event: "WorkerEvent", runs: dict[str, list[str]]) -> None:
    from msgspec import to_builtins

    from specialists.worker_events import Begun, Offered

    if isinstance(event, Offered):
        contract = event.contract
        waited = sorted({run for capability in contract.offers for run in runs.get(capability, ())})
        text = f"{contract.specialist} offers {', '.join(contract.offers)} (contract version {contract.version})"
        if waited:
            text += f"; {len(waited)} waited for it: {', '.join(waited[:10])}{', ...' if waited[10:] else ''}"
        offered = {"specialist": contract.specialist, "offers": contract.offers, "version": contract.version}
        options.say({"event": "offered", **offered, "seq": event.seq, "waiting": waited}, text)
        return
    record: dict[str, Any] = {"event": "begun", **event.key._asdict(), "execution": event.execution}
    if isinstance(event, Begun):
        if options.as_json:
            options.say(record)
        return
    record |= {"event": event.how, "code": event.code, "message": event.message, "to": event.to}
    record |= {"latency_ms": event.latency_ms, "usage": to_builtins(event.usage)}
    code = f"{event.code} to {event.to}" if event.to else event.code
    outcome = f"{code}: {event.message}" if code else "done" if event.how == "stored" else event.how
    task = f"{event.key.specialist}  {event.key.run}/{event.key.task} attempt {event.key.attempt}"
    options.say(record, f"{task}  {outcome}  {event.latency_ms} ms")


@click.command()
@click.argument("specialist")
@board_options
def detach(specialist: str, options: BoardOptions) -> None:
    """Withdraw SPECIALIST from the catalogue: new tasks go to others; what it has been given it may end."""
    options.run(_detach(specialist, options))


async def _detach(name: str, options: BoardOptions) -> None:
    from blackboard.client import BadInput, Client

    settings = options.settings()
    async with settings.open("detach", Role.CURATOR) as board:
        client = Client(board, settings.name)
        view = await client.catalogue()
        if view.contract(name) is None:
            known = ", ".join(contract.specialist for contract in view.contracts()) or "none"
            raise BadInput(f"no specialist {name!r} offers anything on this board (specialists: {known})")
        seq = await client.withdraw(name)
    options.say({"specialist": name, "withdrawn": seq}, f"{name} is withdrawn; stop its workers when they are idle")


@click.command("try")
@click.argument("target")
@click.argument("words", nargs=-1, metavar="INPUT...")
@click.option("--fact", "facts", multiple=True, metavar="KEY=VALUE", help="A fact that it may read; JSON or a word.")
@click.option("--bid", is_flag=True, help="Ask what it would bid for the work, instead of doing it.")
@click.option("--json", "as_json", is_flag=True, help="JSON on stdout, and nothing else there.")
def try_(target: str, words: tuple[str, ...], facts: tuple[str, ...], bid: bool, as_json: bool) -> None:
    """Run the specialist TARGET on one input, with no board.

    TARGET is ./file.py:name or package.module:name. INPUT is JSON, @file, or key=value ... What it asks is asked here,
    on a terminal. Exit code 4 when it stops without a value, 5 when it was not allowed what it wanted, 7 when it asks
    and nobody is there.
    """
    from specialists.cli_try import try_specialist

    sys.exit(try_specialist(BoardOptions(as_json=as_json), target, words, facts, bid))


@click.command("eval")
@click.argument("team")
@click.argument("scenarios", nargs=-1, metavar="[SCENARIO]...")
@click.option("--live", is_flag=True, help="Play in real time, with the models that are configured.")
@click.option("--runs", type=click.IntRange(1), help="How often each is played, in place of what it says itself.")
@click.option("--json", "as_json", is_flag=True, help="JSON on stdout, and nothing else there.")
def eval_(team: str, scenarios: tuple[str, ...], live: bool, runs: int | None, as_json: bool) -> None:
    """Play the scenarios of TEAM, and compare what comes of them with what they expect.

    TEAM is ./file.py, package.module:name or a reference team. Without --live models say what the scenario has written
    down, and each scenario is simulated in many worlds in which things go wrong. No board is needed. Exit code 1 when a
    scenario comes to something else than it expects, or is beyond its limits.
    """
    from specialists.cli_eval import evaluate_team
    from specialists.loading import LoadError
    from specialists.models import BadModels

    options = BoardOptions(as_json=as_json)
    try:
        sys.exit(evaluate_team(options, team, scenarios, live, runs))
    except (LoadError, BadModels) as error:
        options.fail(error)
