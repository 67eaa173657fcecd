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

    It needs the role admin; a supervisor with fewer rights finds them then. Where the board exists, nothing changes:
    the number of servers that keep it is told, and it is an error when --replicas asks for another.
    """
    options.run(_create(options, replicas))


async def _create(options: BoardOptions, replicas: int | None) -> None:
    from blackboard.jetstream_check import look
    from blackboard.jetstream_streams import StreamMismatch
    from blackboard.nats_connection import connect
    from schemas.subjects import Subjects

    settings = options.settings()
    subjects = Subjects(settings.board)
    connection = await connect(settings.nats, "create", credentials=settings.credentials([Role.ADMIN]), ca=settings.ca)
    try:
        found = {one.stream: one.copies.wanted for one in await look(connection, subjects) if one.copies}
        others = {stream: copies for stream, copies in found.items() if replicas and copies != replicas}
        if others:
            there = ", ".join(f"{stream}: {number}" for stream, number in others.items())
            change = " and ".join(f"`nats stream edit {stream} --replicas {replicas}`" for stream in others)
            raise StreamMismatch(
                f"board {settings.board} exists, and create does not change how many servers keep each message "
                f"({there}): leave --replicas out, or do {change}"
            )
        async with settings.open("create", Role.ADMIN, create=True, replicas=replicas) as board:
            head = await board.log.head()
            copies = (await look(connection, subjects))[0].copies
    finally:
        await connection.close()
    kept = copies.wanted if copies else 0
    options.say(
        {"board": settings.board, "log": board.log.id, "head": head, "replicas": kept, "nats": settings.nats},
        f"board {settings.board} is there: log id {board.log.id}, {head} messages, each kept by {kept} "
        f"server{'s' if kept != 1 else ''}",
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
