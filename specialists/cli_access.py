"""`blackboard access`: who may say what on a server. `blackboard offer`: what stands in the catalogue.

Credentials are signed with the operator's keys, with no server at hand; only to take some back is a server told.
"""

import math
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from pydantic import ValidationError

from blackboard.options import BoardOptions, board_options
from schemas.access import Role
from schemas.goals import explain

if TYPE_CHECKING:
    from blackboard.access import Access, Granted
    from schemas.contracts import Contract
    from specialists.loading import Loaded

directory_option = click.option(
    "--dir",
    "directory",
    metavar="DIR",
    envvar="BLACKBOARD_ACCESS",
    help="The operator's directory [default: $BLACKBOARD_ACCESS, else .blackboard/access here or above].",
)
ROLES = [role.value for role in Role]
SUPERVISOR, ADMIN = "supervisor.creds", "admin.creds"


@click.group()
def access() -> None:
    """Make credentials, and take them back. Each identity may do what its role needs, and nothing else."""


@access.command()
@directory_option
@board_options
def init(directory: str | None, options: BoardOptions) -> None:
    """Make the operator's keys, what a server must include, and the credentials of administrator and supervisors.

    `blackboard up` does it by itself. Keep the directory secret: whoever can read it may be anybody.
    """
    options.run(_init(options, Path(directory or ".blackboard/access")))


async def _init(options: BoardOptions, directory: Path) -> None:
    from blackboard.access import Access

    made = Access.init(directory)
    board = options.board or "main"
    made.grant(directory / ADMIN, [Role.ADMIN], ["admin"], board)
    made.grant(directory / SUPERVISOR, [Role.SUPERVISOR], ["supervisor"], board)
    files = {"server": directory / "server.conf", "admin": directory / ADMIN, "supervisor": directory / SUPERVISOR}
    options.say(
        {"dir": str(directory), **{name: str(path) for name, path in files.items()}},
        f"the operator's keys are in {directory}: keep it secret, and a copy of it\n"
        f"  {files['server']}  for the server: include it in its configuration\n"
        f"  {files['admin']}  to make the board: blackboard create --creds {files['admin']}\n"
        f"  {files['supervisor']}  for blackboard supervise --creds",
    )


@access.command(epilog="SPECIALIST is ./file.py:name, package.module:name, a reference team, or a bare name.")
@click.argument("who", nargs=-1, required=True, metavar="NAME...")
@click.option(
    "--role", "roles", multiple=True, type=click.Choice(ROLES), help="What for; several may be given [specialist]."
)
@click.option("--out", metavar="FILE", help="Where to write the credentials [default: ./NAME.creds].")
@click.option("--expires", metavar="TIME", help="How long they hold: 90s, 12h, 30d [default: until revoked].")
@directory_option
@board_options
def grant(
    who: tuple[str, ...],
    roles: tuple[str, ...],
    out: str | None,
    expires: str | None,
    directory: str | None,
    options: BoardOptions,
) -> None:
    """Write credentials for NAME into a file that only you can read. No server need know.

    For a specialist NAME may be what `attach` takes; the credentials are then for all specialists that it names, in one
    process. Other roles: publisher, approver, console, auditor, notary, curator, supervisor, admin.
    """
    chosen = [Role(role) for role in roles] or [Role.SPECIALIST]
    options.run(_grant(options, who, chosen, out, expires, directory))


async def _grant(
    options: BoardOptions,
    who: Sequence[str],
    roles: Sequence[Role],
    out: str | None,
    expires: str | None,
    directory: str | None,
) -> None:
    from blackboard.cli_publish import read_duration
    from blackboard.client import BadInput

    names = [name for one in who for name in (_names(one) if Role.SPECIALIST in roles else [one])]
    path = Path(out or f"{re.sub(r'[^A-Za-z0-9_-]+', '-', Path(who[0]).stem)}.creds")
    try:
        expires_s = math.ceil(read_duration(expires, "--expires")) if expires is not None else 0
        made = _load(directory).grant(path, roles, names, options.board or "main", expires_s)
    except ValueError as error:
        raise BadInput(str(error)) from None
    said = {"creds": str(path), "roles": list(roles), "names": names, "public": made.public, "inbox": made.inbox}
    text = f"{path}: {', '.join(roles)} {', '.join(names)}; inbox prefix {made.inbox}"
    if Role.SPECIALIST in roles:
        text += "\nits contract comes into the catalogue with `blackboard offer`"
    options.say(said, text)


def _names(target: str) -> list[str]:
    """The specialists that a target names; a bare name is one of its own."""
    from schemas.subjects import is_token
    from specialists.loading import TEAMS, load

    if is_token(target) and target not in TEAMS:
        return [target]
    return [one.name for one in load(target).specialists]


@access.command()
@click.argument("who", metavar="NAME")
@click.option("--role", type=click.Choice(ROLES), help="Only credentials with this role.")
@click.option("--public", metavar="KEY", help="Only the credentials with this public key.")
@directory_option
@board_options
def revoke(who: str, role: str | None, public: str | None, directory: str | None, options: BoardOptions) -> None:
    """Take back all credentials of NAME, which may be what was granted. The server drops its connections at once.

    Where the server cannot be reached, the keys are marked all the same: say it again when it is there.
    """
    options.run(_revoke(options, who, role, public, directory))


async def _revoke(
    options: BoardOptions, name: str, role: str | None, public: str | None, directory: str | None
) -> None:
    from blackboard.access import tell
    from blackboard.client import BadInput
    from blackboard.log import LogError, LogUnavailable
    from blackboard.server import ServerError

    found, of_target = _load(directory), {*_names(name)}
    chosen = [
        one
        for one in found.granted()
        if (name in one.names or of_target <= {*one.names})
        and (role is None or role in one.roles)
        and public in (None, one.public)
    ]
    if not chosen:
        raise BadInput(f"nothing of that kind was granted to {name!r}: `blackboard access list` shows all")
    accounts = found.revoke(chosen)
    keys = [one.public for one in chosen]
    try:
        settings = options.settings()
        await tell(settings.nats, found, accounts, settings.ca)
    except (LogError, ServerError) as error:
        untold = f"{name}: {len(keys)} marked as revoked, but no server knows it yet: say it again when it is there"
        raise LogUnavailable(f"{untold} ({error})") from error
    options.say({"name": name, "revoked": keys}, f"{name}: {len(keys)} revoked, and the server was told")


@access.command("list")
@directory_option
@board_options
def list_(directory: str | None, options: BoardOptions) -> None:
    """List what was granted."""
    options.run(_list(options, directory))


async def _list(options: BoardOptions, directory: str | None) -> None:
    from msgspec import to_builtins

    for one in _load(directory).granted():
        options.say(to_builtins(one), _line(one))


def _line(one: "Granted") -> str:
    from datetime import UTC, datetime

    def day(at_s: int) -> str:
        return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%d %H:%M")

    if one.revoked_s:
        state = f"revoked {day(one.revoked_s)}"
    elif one.until_s:
        state = f"{'expired' if one.until_s <= time.time() else 'holds until'} {day(one.until_s)}"
    else:
        state = "holds"
    return f"{'+'.join(one.roles)} {' '.join(one.names)}  board {one.board}  {day(one.at_s)}  {state}  {one.public}"


def _load(directory: str | None) -> "Access":
    from blackboard.access import FOLDER, Access, is_there

    if directory:
        return Access.load(directory)
    here = Path.cwd()
    places = [parent / ".blackboard" / FOLDER for parent in (here, *here.parents)]
    return Access.load(next((place for place in places if is_there(place)), places[0]))


@click.command()
@click.argument("targets", nargs=-1, required=True, metavar="TARGET...")
@board_options
def offer(targets: tuple[str, ...], options: BoardOptions) -> None:
    """Put the contracts and playbooks of TARGET into the catalogue, and run nothing.

    TARGET is what `attach` takes, or a .json file with a contract. It needs the role curator; workers with credentials
    of their own then attach.
    """
    from specialists.loading import LoadError, load

    files = [Path(target) for target in targets if target.endswith(".json")]
    try:
        loaded = [load(target) for target in targets if not target.endswith(".json")]
    except LoadError as error:
        options.fail(error)
    options.run(_offer(options, loaded, files))


def _read_contract(path: Path) -> "Contract":
    """The contract in a file, of a specialist in another language. Raises BadInput."""
    from blackboard.client import BadInput
    from schemas.contracts import Contract

    try:
        return Contract.model_validate_json(path.read_bytes())
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}") from None
    except ValidationError as error:
        raise BadInput(f"{path} is no contract: {explain(error)}") from None


async def _offer(options: BoardOptions, loaded: "Sequence[Loaded]", files: Sequence[Path]) -> None:
    from blackboard.client import Client
    from specialists.worker import Worker

    contracts = [_read_contract(path) for path in files]
    async with options.settings().open("offer", Role.CURATOR) as board:
        for contract in contracts:
            await Client(board, contract.specialist).offer(contract)
            options.say({"specialist": contract.specialist}, f"{contract.specialist}: its contract is on the board")
        for target in loaded:
            worker = Worker(board, target.specialists, on_event=lambda event: None)
            try:
                await worker.offer()
            finally:
                await worker.close()
            for one in target.specialists:
                options.say({"specialist": one.name}, f"{one.name}: its contract is on the board")
            if target.team:
                await Client(board, "curator").teach(target.team.playbook)
                options.say({"team": target.team.name}, f"team {target.team.name}: its playbook is on the board")
