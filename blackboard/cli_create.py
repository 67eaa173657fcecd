"""`blackboard create`: the streams of a board. `blackboard certificates`: what its servers show under TLS."""

from pathlib import Path

import click

from blackboard.options import BoardOptions, board_options
from schemas.access import Role


@click.command()
@click.option(
    "--replicas", type=click.IntRange(1, 5), help="Servers that keep each message [default: 3 on a cluster, else 1]."
)
@board_options
def create(replicas: int | None, options: BoardOptions) -> None:
    """Make the board's log, task queue and blob store where they do not exist.

    It needs the role admin; a supervisor with fewer rights finds them then. Where the board exists, nothing changes,
    and the number of servers that keep it stays as it is.
    """
    options.run(_create(options, replicas))


async def _create(options: BoardOptions, replicas: int | None) -> None:
    settings = options.settings()
    async with settings.open("create", Role.ADMIN, create=True, replicas=replicas) as board:
        head = await board.log.head()
        options.say(
            {"board": settings.board, "log": board.log.id, "head": head, "nats": settings.nats},
            f"board {settings.board} is there: log id {board.log.id}, {head} messages",
        )


@click.command(epilog="HOST is the name or address by which clients and the other servers reach a server.")
@click.argument("hosts", nargs=-1, required=True, metavar="HOST...")
@click.option(
    "--dir", "directory", default="certificates", show_default=True, help="Where the authority and all it signs lie."
)
@click.option(
    "--also",
    multiple=True,
    metavar="NAME",
    help="Another name or address of each HOST; may be repeated. Each is localhost, 127.0.0.1 and ::1, too.",
)
@click.option("--days", type=click.IntRange(1, 3650), default=825, show_default=True, help="How long they hold.")
@click.option("--json", "as_json", is_flag=True, help="JSON on stdout, and nothing else there.")
def certificates(hosts: tuple[str, ...], directory: str, also: tuple[str, ...], days: int, as_json: bool) -> None:
    """Make a certificate for each HOST, signed by an authority of your own, for TLS.

    The authority is made where there is none: ca.crt for whoever is to trust the servers (--ca), ca.key for nobody but
    you. A HOST that has a certificate gets another one: restart or reload its server.
    """
    options = BoardOptions(as_json=as_json)
    try:
        made = _certificates(hosts, Path(directory), also, days)
    except Exception as error:
        options.fail(error)
    for host, (certificate, key) in made.items():
        options.say(
            {"host": host, "certificate": str(certificate), "key": str(key), "ca": f"{directory}/ca.crt"},
            f"{host}: {certificate} and {key}",
        )


def _certificates(
    hosts: tuple[str, ...], directory: Path, also: tuple[str, ...], days: int
) -> dict[str, tuple[Path, Path]]:
    from blackboard.certificates import HERE, open_authority

    authority = open_authority(directory)
    return {host: authority.issue(host, (*also, *HERE), days) for host in hosts}
