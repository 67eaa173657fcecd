"""The verbs of those who look on (`inbox`, `watch`, `tail`, `runs`, `show`, `why`, `rebuild`, `export`), which read the
log and nothing else, and of those who answer (`approve`, `deny`, `answer`, `cancel`), which append a signal. Each
stands in a module of its own, which is imported when it is called."""

import sys
from collections.abc import Callable

import click

from blackboard.options import BoardOptions, board_options

RUN_HELP = "RUN is a run's id, the beginning of it, or @last."


@click.command(epilog=RUN_HELP)
@click.argument("run")
@click.option("--no-input", is_flag=True, help="Do not wait for people: exit with 7 when the run does.")
@board_options
def watch(run: str, no_input: bool, options: BoardOptions) -> None:
    """Follow RUN until it ends: phase, steps, facts, and what it waits for.

    Progress goes to stderr, the result to stdout; with --json each change is a line on stdout. Exit code: 0 DONE,
    3 DEGRADED, 4 FAILED or FAILED_RETRYABLE, 5 POLICY_BLOCKED, 6 CANCELLED, 7 NEEDS_INPUT with --no-input.
    """
    from projections.cli_watch import watch_run

    sys.exit(options.run(watch_run(options, run, no_input)))


@click.command(epilog=RUN_HELP)
@click.option("--run", help="Only what belongs to this run.")
@click.option("--after", metavar="SEQ", type=click.IntRange(0), default=0, help="Begin behind this sequence.")
@click.option("--follow/--no-follow", default=False, help="Go on with what comes, until Ctrl-C.")
@board_options
def tail(run: str | None, after: int, follow: bool, options: BoardOptions) -> None:
    """Print the messages of the log, one line each: sequence, time, what it is, author, run, content."""
    from projections.cli_tail import tail_log

    options.run(tail_log(options, run, after, follow))


@click.command()
@board_options
def runs(options: BoardOptions) -> None:
    """List the runs of the board, the newest last, from a view that is brought up to date first."""
    from projections.cli_runs import list_runs

    options.run(list_runs(options))


@click.command(epilog=f"{RUN_HELP} `show _board` lists the inputs that were rejected.")
@click.argument("run")
@board_options
def show(run: str, options: BoardOptions) -> None:
    """Show RUN: phase, steps, tasks in flight and with whom, what it waits for, facts, result, digests."""
    from projections.cli_show import show_run

    options.run(show_run(options, run))


@click.command(epilog=RUN_HELP)
@click.argument("run")
@click.argument("key")
@board_options
def why(run: str, key: str, options: BoardOptions) -> None:
    """Explain the fact KEY of RUN: its value, who claimed it, what lost and why, who declined, and on what inputs."""
    from projections.cli_why import explain_fact

    options.run(explain_fact(options, run, key))


@click.command(epilog=RUN_HELP)
@click.argument("run", required=False)
@click.option("--all", "everything", is_flag=True, help="Every run of the board, in one read of the log.")
@click.option("--version", metavar="N", type=click.IntRange(1), help="Only the first N events.")
@click.option("--check", is_flag=True, help="Also the inputs that are cited, and the states that supervisors held.")
@board_options
def rebuild(run: str | None, everything: bool, version: int | None, check: bool, options: BoardOptions) -> None:
    """Rebuild RUN (or --all) from the log alone and print version, head, state and outcome digests.

    Exit code 1 at the first event that is not what was written, or does not follow from what it cites.
    """
    from projections.cli_rebuild import rebuild_each, rebuild_one

    if everything == bool(run):
        raise click.UsageError("name a RUN, or --all")
    if version and (everything or check):
        raise click.UsageError("--version goes with one RUN, and not with --check")
    if run:
        options.run(rebuild_one(options, run, version, check))
    else:
        options.run(rebuild_each(options, check))


@click.command(epilog=RUN_HELP)
@click.argument("run")
@click.argument("task", required=False, default="")
@click.option("--export", "path", metavar="FILE", help="Write the calls into FILE, as BLACKBOARD_RECORDING reads them.")
@board_options
def conversation(run: str, task: str, path: str | None, options: BoardOptions) -> None:
    """Show what models were asked in RUN, or in one TASK of it, and what they answered."""
    from projections.cli_conversation import export_recording, show_conversation

    if path:
        options.run(export_recording(options, run, task, path))
    else:
        options.run(show_conversation(options, run, task))


@click.command(epilog=f"{RUN_HELP} FILE may be `-`.")
@click.argument("words", metavar="[RUN] FILE", nargs=-1, required=True)
@click.option("--all", "everything", is_flag=True, help="The whole log of the board instead of one RUN.")
@board_options
def export(words: tuple[str, ...], everything: bool, options: BoardOptions) -> None:
    """Write what the log holds of RUN, inputs, facts and the catalogue below them, into FILE.

    A line of JSON for each message, the first line naming log and board, the last one the digest of all before it.
    `blackboard replay FILE` decides it again; it needs no board.
    """
    from projections.cli_export import export_history

    if len(words) != (1 if everything else 2):
        raise click.UsageError("name a RUN and a FILE, or --all and a FILE")
    options.run(export_history(options, None if everything else words[0], words[-1]))


def _answer(command: Callable[..., None]) -> Callable[..., None]:
    """What `approve` and `deny` have in common."""
    command = click.option("--gate", metavar="GATE", help="Which gate, where the run has several open.")(command)
    command = click.option("--digest", help="The digest of what is answered: nothing is asked.")(command)
    return click.option("--yes", "sure", is_flag=True, help="Do not ask; answer what was shown.")(command)


@click.command(epilog=RUN_HELP)
@click.argument("run")
@_answer
@board_options
def approve(run: str, gate: str | None, digest: str | None, sure: bool, options: BoardOptions) -> None:
    """Show what RUN waits to do, with files, sizes and first lines, ask, and approve it. Where RUN asks whether to go
    on in spite of a loop, it goes on.

    The approval is bound to the digest of exactly that; anything else is refused with the reason.
    """
    from projections.cli_gates import approve_or_deny

    approve_or_deny(options, run, gate, digest, True, sure, "")


@click.command(epilog=RUN_HELP)
@click.argument("run")
@click.option("--reason", default="", help="Recorded with the denial.")
@_answer
@board_options
def deny(run: str, gate: str | None, digest: str | None, sure: bool, reason: str, options: BoardOptions) -> None:
    """Show what RUN waits to do, or asks for, ask, and deny it. The run ends POLICY_BLOCKED, unless its playbook lets
    it go on without."""
    from projections.cli_gates import approve_or_deny

    approve_or_deny(options, run, gate, digest, False, sure, reason)


@click.command(epilog=RUN_HELP, context_settings={"ignore_unknown_options": True})
@click.argument("run")
@click.argument("value", required=False)
@click.option("--file", metavar="FILE", help="The answer stands in FILE.")
@click.option("--gate", metavar="GATE", help="Which question, where the run has several open.")
@click.option("--digest", help="The digest of the question that is answered; another one is refused.")
@board_options
def answer(
    run: str, value: str | None, file: str | None, gate: str | None, digest: str | None, options: BoardOptions
) -> None:
    """Show what RUN asks for, and answer it with VALUE: JSON, or a plain text where a text is asked for; `-` reads
    standard input. Without VALUE it asks, on a terminal.

    The answer must satisfy the schema of the question; what does not is named, and not sent.
    """
    from projections.cli_answer import STDIN, Source
    from projections.cli_gates import answer as answer_question

    if value is not None and file is not None:
        raise click.UsageError("give VALUE or --file, not both")
    if value and value != STDIN and value.startswith("-") and not value[1:2].isdecimal():
        raise click.UsageError(f"no such option: {value}; a text like that goes in as JSON, in quotes")
    source = Source(value, file, ask=not options.as_json)
    answer_question(options, run, gate, digest, source)


@click.command()
@click.option("--for", "person", metavar="PERSON", help="Only what PERSON may answer.")
@click.option("--watch", is_flag=True, help="Go on with what comes and goes, until Ctrl-C.")
@board_options
def inbox(person: str | None, watch: bool, options: BoardOptions) -> None:
    """List what waits for people, over all runs that go on: approvals, questions, and loops, with the command that
    answers. What you may answer (--name) comes first, the oldest at the top."""
    from projections.cli_inbox import list_asked, watch_asked

    if watch:
        options.run(watch_asked(options, person))
    else:
        sys.exit(options.run(list_asked(options, person)))


@click.command(epilog=RUN_HELP)
@click.argument("run")
@click.option("--reason", default="", help="Recorded with the end of the run.")
@board_options
def cancel(run: str, reason: str, options: BoardOptions) -> None:
    """End RUN; what its specialists still do is not committed."""
    from projections.cli_cancel import cancel_run

    options.run(cancel_run(options, run, reason), role="client")
