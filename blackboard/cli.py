"""The command `blackboard`: a table of verbs, each imported when it is called, so that `--help` is quick.

The table names the upper folders as data only; nothing below imports them.
"""

import importlib
import importlib.util
import sys
from pathlib import Path

import click

VERBS: dict[str, tuple[str, str]] = {
    "up": ("blackboard.cli_up:up", "Start a server, a supervisor and the workers of teams."),
    "demo": ("specialists.cli_demo:demo", "Audit the licences of an environment on a board of its own."),
    "ask": ("specialists.cli_ask:ask", "Answer a question from a folder of documents, with citations."),
    "publish": ("blackboard.cli_publish:publish", "Publish a goal to a team."),
    "cancel": ("projections.cli:cancel", "End a run."),
    "approve": ("projections.cli:approve", "Show what a run waits to do, and approve it."),
    "deny": ("projections.cli:deny", "Show what a run waits to do, and deny it."),
    "answer": ("projections.cli:answer", "Answer a question of a run."),
    "inbox": ("projections.cli:inbox", "List what waits for people."),
    "supervise": ("supervisor.cli:supervise", "Run a supervisor."),
    "status": ("projections.cli_status:status", "Show which supervisor is active, who stands by, and what waits."),
    "attach": ("specialists.cli:attach", "Run specialists and teams on the board."),
    "offer": ("specialists.cli_access:offer", "Put contracts and playbooks into the catalogue, and run nothing."),
    "detach": ("specialists.cli:detach", "Withdraw a specialist from the catalogue."),
    "try": ("specialists.cli:try_", "Run a specialist on one input, with no board."),
    "eval": ("specialists.cli:eval_", "Play the scenarios of a team, simulated or live."),
    "watch": ("projections.cli:watch", "Follow a run until it ends."),
    "tail": ("projections.cli:tail", "Print the log, message by message."),
    "runs": ("projections.cli:runs", "List runs."),
    "show": ("projections.cli:show", "Show a run: where it is, and what it waits for."),
    "why": ("projections.cli:why", "Explain a fact: who said what, and what decided."),
    "conversation": ("projections.cli:conversation", "Show what models were asked in a run, and what they answered."),
    "rebuild": ("projections.cli:rebuild", "Rebuild runs from the log, at any version, and check them."),
    "verify": ("projections.cli_verify:verify", "Verify that the log is what was written, and what a notary signed."),
    "notarize": ("projections.cli_notary:notarize", "Sign at intervals what the log holds, for witnesses."),
    "replay": ("supervisor.cli:replay", "Decide recorded runs again, and compare every event."),
    "export": ("projections.cli:export", "Write a recorded run, or the whole log, into a file."),
    "backup": ("blackboard.cli_backup:backup", "Copy the board, its log and its blobs, into a file."),
    "restore": ("blackboard.cli_backup:restore", "Make a board out of such a file, where there is none."),
    "mcp": ("projections.cli_mcp:mcp", "Serve the board to MCP clients: publish, wait, facts, why, inbox."),
    "a2a": ("projections.cli_a2a:a2a", "Serve the board to other agents over A2A."),
    "schema": ("blackboard.cli_schema:schema", "Print what a team, a specialist or a message takes."),
    "access": ("specialists.cli_access:access", "Make credentials for a secured server, and take them back."),
    "create": ("blackboard.cli_create:create", "Make the streams of a board."),
    "certificates": ("blackboard.cli_create:certificates", "Make certificates for servers, for TLS."),
    "doctor": ("blackboard.cli_doctor:doctor", "Check this installation and the board."),
}
"""verb -> ("package.module:command", help)"""


class LazyGroup(click.Group):
    """Lists verbs from the table; imports a verb's module when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        module, _, name = VERBS[cmd_name][0].partition(":")
        command: click.Command = getattr(importlib.import_module(module), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(verb, text) for verb, (_, text) in VERBS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="blackboard")
def cli() -> None:
    """An event-sourced blackboard for multi-agent systems.

    `blackboard demo` shows it at work; `blackboard up licences` starts a board here.
    """


def main() -> None:
    here = Path(__file__).resolve().parent.parent
    found = importlib.util.find_spec("supervisor")
    if found is None or found.origin is None or Path(found.origin).resolve().parent.parent != here:
        sys.exit(
            f"blackboard: the package `supervisor` does not lie beside it in {here}; something else has that name: "
            "give blackboard an environment of its own"
        )
    cli()


if __name__ == "__main__":
    main()
