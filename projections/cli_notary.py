"""`blackboard notarize`: a notary as a process, and its key."""

import asyncio
import os
import signal
import time

import click

from blackboard.options import BoardOptions, board_options

EVERY_S = 10.0


@click.command(epilog="WITNESS is file:PATH, git:FOLDER, git:FOLDER#REMOTE or nats://HOST:PORT#SUBJECT.")
@click.option("--init-key", metavar="FILE", help="Make a key in FILE (0600), its public key in FILE.pub, and stop.")
@click.option("--key", metavar="FILE", help="The key to sign with.")
@click.option("--witness", "forms", metavar="WITNESS", multiple=True, help="Where heads are left; may be repeated.")
@click.option(
    "--every", "every_s", metavar="SECONDS", type=click.FloatRange(0.05), default=EVERY_S, show_default=True,
    help="How often what is new is signed.",
)  # fmt: skip
@click.option("--once", is_flag=True, help="Sign what is there now, and stop.")
@board_options
def notarize(
    init_key: str | None, key: str | None, forms: tuple[str, ...], every_s: float, once: bool, options: BoardOptions
) -> None:
    """Sign at intervals how far the log goes, and what it holds up to there, and leave that with witnesses.

    Reads the board only. It goes on from what the witnesses hold, and ends with exit code 1 where the log contradicts
    it. `blackboard verify` compares.
    """
    if init_key:
        _make_key(options, init_key)
        return
    if not key or not forms:
        raise click.UsageError("name --key FILE and at least one --witness; or --init-key FILE for a new key")
    options.run(_notarize(options, key, forms, every_s, once), role="notary")


def _make_key(options: BoardOptions, path: str) -> None:
    from projections.notary_key import make_key

    try:
        public = make_key(path)
    except Exception as error:
        options.fail(error)
    options.say({"key": path, "public": public}, f"{path} is made; its public key, also in {path}.pub: {public}")


async def _notarize(options: BoardOptions, path: str, forms: tuple[str, ...], every_s: float, once: bool) -> None:
    from blackboard import logs
    from projections.notary import public_of
    from projections.notary_key import read_key
    from projections.notary_service import Notary
    from projections.witness_forms import witnesses_of
    from schemas.access import Role
    from schemas.heads import Signed

    lines, key, settings = logs.set_up(), read_key(path), options.settings()
    witnesses, stop = witnesses_of(forms, settings.board), asyncio.Event()
    for received in () if once else (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(received, stop.set)

    def say(signed: Signed) -> None:
        head = signed.head
        told = {"head": head.number, "seq": head.seq, "digest": head.digest, "at_ms": head.at_ms}
        options.say(told, f"head {head.number}: sequences {head.after + 1} to {head.seq}, digest {head.digest}")

    try:
        async with settings.open("notary", Role.NOTARY) as board:
            lines.log = board.log.id
            notary = Notary(board, key, witnesses, lambda: time.time_ns() // 1_000_000)
            await notary.begin()
            about = {"role": "notary", "pid": os.getpid(), "board": settings.board, "key": public_of(key)}
            options.say({**about, "seq": notary.seq})
            if once:  # whoever asks for it is told when it cannot be done
                for signed in await notary.turn():
                    say(signed)
            else:
                await notary.run(stop, every_s, say)
    finally:
        for witness in witnesses:
            await witness.close()
