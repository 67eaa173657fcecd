"""`blackboard backup` and `blackboard restore`: a board into a file, and a board out of one."""

import contextlib
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from blackboard.options import BoardOptions, board_options

if TYPE_CHECKING:
    from blackboard.backup_file import BackupFile
    from blackboard.jetstream_backup import Tell
    from blackboard.nats_connection import Connection
    from blackboard.settings import Settings

_FILE = click.Path(path_type=Path, dir_okay=False)
_here = click.option("--here", is_flag=True, help="Run the server of this folder meanwhile, where none runs.")


@click.command()
@click.argument("file", type=_FILE)
@click.option("--force", is_flag=True, help="Replace FILE where it exists, once the new one is whole.")
@_here
@board_options
def backup(options: BoardOptions, file: Path, force: bool, here: bool) -> None:
    """Copy the board into FILE: its log and its blobs. It goes on meanwhile; what comes later is not in the copy.

    FILE appears when it is whole and on disk. It holds everything that the board does: keep it as safe.
    """
    with _server(options, here, must_exist=True) as url:
        options.run(_back_up(options, url, file, force))


async def _back_up(options: BoardOptions, url: str, file: Path, force: bool) -> None:
    from blackboard.jetstream_backup import back_up
    from schemas.subjects import Subjects

    settings = _settings(options, url)
    subjects = Subjects(settings.board)
    connection = await _connect(settings)
    try:
        with _progress(options) as tell:
            copied = await back_up(connection, subjects, file, replace=force, tell=tell)
    finally:
        await connection.close()
    header = copied.header
    options.say(
        {
            "file": str(file),
            "board": header.board,
            "log": header.log,
            "last": header.last,
            "messages": copied.messages,
            "bytes": copied.bytes,
            "sha256": copied.sha256,
        },
        f"{file}: board {header.board}, {copied.messages:,} messages, {_size(copied.bytes)}, log {header.log}\n"
        f"sha256 {copied.sha256}",
    )


@click.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False, exists=True))
@click.option("--check", is_flag=True, help="Only read FILE and compare its digests.")
@click.option("--replicas", type=click.IntRange(1, 5), help="Servers that keep each message [default: as it was].")
@_here
@board_options
def restore(options: BoardOptions, file: Path, check: bool, replicas: int | None, here: bool) -> None:
    """Make the board that FILE holds, under its name, on a server that has no such board. All or nothing: nothing is
    replaced, and a restore that fails leaves no board."""
    from blackboard.backup_file import BackupFile, BadBackupFile

    try:
        found = BackupFile(file)
        _check_name(options, found)
        if check:
            with _progress(options) as tell:
                found.check(lambda done: tell(str(file), done, found.bytes))
            return _say(options, found, "is whole")
    except (BadBackupFile, OSError) as error:
        options.fail(error)
    with _server(options, here, fill=True) as url:
        options.run(_restore(options, url, found, replicas))
    if here:
        os.sync()
    return _say(options, found, "is restored")


async def _restore(options: BoardOptions, url: str, found: "BackupFile", replicas: int | None) -> None:
    from blackboard.jetstream_restore import clear_place, restore
    from schemas.subjects import Subjects

    connection = await _connect(_settings(options, url))
    try:
        await clear_place(connection, Subjects(found.header.board))  # before a long look at the file
        with _progress(options) as tell:
            found.check(lambda done: tell(str(found.path), done, found.bytes))
            await restore(connection, found, replicas=replicas, tell=tell)
    finally:
        await connection.close()


def _say(options: BoardOptions, found: "BackupFile", what: str) -> None:
    header = found.header
    assert found.trailer is not None, "it was checked"
    options.say(
        {
            "file": str(found.path),
            "board": header.board,
            "log": header.log,
            "last": header.last,
            "bytes": found.bytes,
            "sha256": found.trailer.sha256,
        },
        f"{found.path} {what}: board {header.board}, {header.last:,} messages, {_size(found.bytes)}, log {header.log}\n"
        f"sha256 {found.trailer.sha256}",
    )


def _check_name(options: BoardOptions, found: "BackupFile") -> None:
    """The subjects of its messages carry the board's name, so it can only be restored under it."""
    from blackboard.backup_file import BadBackupFile

    if options.board is not None and options.board != found.header.board:
        raise BadBackupFile(
            f"{found.path} holds board {found.header.board!r}, and its messages carry that name: "
            "restore it without --board, on a server that has no such board"
        )


def _settings(options: BoardOptions, url: str) -> "Settings":
    from blackboard.settings import load

    return load(url, options.board, options.name, options.creds, options.ca)


async def _connect(settings: "Settings") -> "Connection":
    """As the administrator: nobody else copies or makes streams."""
    from blackboard.nats_connection import connect
    from schemas.access import Role

    return await connect(settings.nats, "backup", credentials=settings.credentials([Role.ADMIN]), ca=settings.ca)


@contextlib.contextmanager
def _server(options: BoardOptions, here: bool, *, must_exist: bool = False, fill: bool = False) -> Iterator[str]:
    """Where the server is; with `here` one that runs as long as this command, and has been here before where it must.
    One that is to `fill` does not wait for the disk after each message: what is not there yet when the machine fails is
    in the file."""
    from blackboard.access import FOLDER, AccessError, is_there, of_server
    from blackboard.server import DIRECTORY, EmbeddedServer, ServerError, find_url

    try:
        if not here:
            yield find_url(options.nats)
            return
        if must_exist and not DIRECTORY.is_dir():
            raise ServerError(f"there is no {DIRECTORY} in this folder")
        directory = DIRECTORY.absolute()
        # A board from before servers asked who is there can be copied as it is.
        operator = of_server(directory) if fill or is_there(directory / FOLDER) else None
        settings = operator.server_settings(directory / "jwt") if operator else ""
        if fill:  # a later block takes the place of an earlier one
            settings += f"\njetstream {{ store_dir: {json.dumps(str(directory / 'data'))}, sync_interval: 10s }}"
        with EmbeddedServer(directory, settings) as server:
            yield server.url
    except AccessError as error:
        options.fail(error)
    except ServerError as error:
        advice = "" if here else "; or run the server of this folder for this command alone, with --here"
        options.fail(ServerError(f"{error}{advice}"))


@contextlib.contextmanager
def _progress(options: BoardOptions) -> "Iterator[Tell]":
    """A bar a stream, on a terminal."""
    if options.as_json or not sys.stderr.isatty():
        yield lambda *_: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    columns: tuple[Any, ...] = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        bars: dict[str, Any] = {}

        def tell(what: str, done: int, total: int) -> None:
            if what not in bars:
                bars[what] = progress.add_task(what)
            progress.update(bars[what], completed=done, total=max(done, total))

        yield tell


def _size(count: int) -> str:
    from rich.filesize import decimal

    return decimal(count)
