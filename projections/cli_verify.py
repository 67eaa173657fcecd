"""`blackboard verify`: the whole log, or one run, against itself and against what a notary signed."""

import sys
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import click
import msgspec

from blackboard.options import BoardOptions, board_options

if TYPE_CHECKING:
    from projections.verify import Verdict
    from projections.verify_findings import Finding

RUN_HELP = "RUN is a run's id, the beginning of it, or @last. "
EPILOG = RUN_HELP + "WITNESS is file:PATH, git:FOLDER or nats://HOST:PORT#SUBJECT, as the notary has it."


@click.command(epilog=EPILOG)
@click.option("--run", "text", metavar="RUN", help="Only what belongs to this run.")
@click.option("--all", "everything", is_flag=True, help="The whole log, from its first message [default].")
@click.option(
    "--witness", "forms", metavar="WITNESS", multiple=True, help="Compare with what it holds; may be repeated."
)
@click.option("--key", metavar="PUBLIC", help="The notary's public key, or a file that holds it.")
@board_options
def verify(text: str | None, everything: bool, forms: tuple[str, ...], key: str | None, options: BoardOptions) -> None:
    """Verify that the log is what was written: no sequence is missing, runs are dense and chained, what they cite is
    there, by the author that they name; with --witness, that each message is the one that the notary signed.

    Exit code 0 when nothing is wrong, else 1; each thing that is wrong is a line on stdout.
    """
    if text and everything:
        raise click.UsageError("name --run RUN, or --all, not both")
    if bool(forms) != bool(key):
        raise click.UsageError("--witness and --key go together: a witness proves nothing without the notary's key")
    sys.exit(options.run(_verify(options, text, forms, key or "")))


async def _verify(options: BoardOptions, text: str | None, forms: tuple[str, ...], key: str) -> int:
    from blackboard.find import find_run
    from projections.cli_text import console
    from projections.notary_key import read_public
    from projections.verify import verify as verify_log
    from projections.witness_forms import witnesses_of

    settings, public = options.settings(), read_public(key) if key else ""
    witnesses = witnesses_of(forms, settings.board)
    told = console(stderr=True)
    try:
        async with settings.open("verify") as board:
            run = await find_run(board, text) if text else ""
            with told.status("reading the log") if told.is_terminal else nullcontext() as status:

                def show(seq: int, head: int) -> None:
                    if status:
                        status.update(f"reading the log: {seq} of {head}")

                verdict = await verify_log(board, run, witnesses, public, show)
    finally:
        for witness in witnesses:
            await witness.close()
    _say(options, verdict)
    return 0 if verdict.good else 1


def _say(options: BoardOptions, verdict: "Verdict") -> None:
    for finding in verdict.findings:
        options.say(_record(finding), _line(finding))
    if verdict.more:
        options.say({"more": verdict.more}, f"and {verdict.more} more")
    record = {name: value for name, value in msgspec.to_builtins(verdict).items() if name != "findings"}
    options.say({**record, "findings": len(verdict.findings) + verdict.more, "good": verdict.good}, _summary(verdict))


def _record(finding: "Finding") -> dict[str, Any]:
    return {name: value for name, value in msgspec.to_builtins(finding).items() if value}


def _line(finding: "Finding") -> str:
    from projections.cli_text import clean

    where = f"sequence {finding.seq}"
    where += f" to {finding.upto}" if finding.upto > finding.seq else ""
    where += f", run {finding.run}" if finding.run else ""
    where += f", event {finding.version}" if finding.version else ""
    return clean(f"{where}: {finding.problem}")


def _summary(verdict: "Verdict") -> str:
    from projections.cli_text import count, when

    read = f"{count(verdict.messages, 'message')} up to sequence {verdict.head}"
    read += f", {count(verdict.runs, 'run')}, {count(verdict.events, 'event')}"
    read += f", {count(verdict.inputs, 'input')} and {count(verdict.states, 'state')} as cited"
    if verdict.ignored:
        read += f"; {count(verdict.ignored, 'message')} ignored, on subjects that name no author and run"
    if signed := verdict.signed:
        read += f"; signed up to sequence {signed.seq} by head {signed.number} of {when(signed.at_ms)} UTC"
        if (above := verdict.head - signed.seq) > 0:
            read += f", {count(above, 'sequence')} above it not yet"
    else:
        read += "; no head of a notary vouches for its end"
    wrong = len(verdict.findings) + verdict.more
    return f"{read}: " + (f"{count(wrong, 'thing')} wrong" if wrong else "nothing is wrong")
