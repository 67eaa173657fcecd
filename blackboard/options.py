"""What all verbs have in common: options that say where the board is, `--json`, and errors that become one sentence.

A typed error carries `exit_code`; the others are matched by the classes below. Exit codes: docs/protocol.md.
"""

import functools
import json
import sys
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

if TYPE_CHECKING:
    from blackboard.settings import Settings

T = TypeVar("T")

USAGE, NO_BOARD = 2, 69
"""Exit codes: a wrong call; no board, or none that answers."""


@dataclass(frozen=True)
class BoardOptions:
    """The options of one call."""

    nats: str | None = None
    board: str | None = None
    name: str | None = None
    as_json: bool = False
    creds: str | None = None
    ca: str | None = None

    def settings(self) -> "Settings":
        """Raises ServerError where no board is found."""
        from blackboard import settings

        return settings.load(self.nats, self.board, self.name, self.creds, self.ca)

    def run(self, work: Coroutine[Any, Any, T], role: str = "") -> T:
        """Run a verb; a known error becomes a sentence on stderr and an exit code. With a `role` it is traced, where
        the environment asks for that."""
        import uvloop

        from blackboard import telemetry

        try:
            with telemetry.tracing(role):
                return uvloop.run(work)
        except KeyboardInterrupt:
            sys.exit(130)
        except Exception as error:
            self.fail(error)

    def fail(self, error: Exception) -> NoReturn:
        """Exit with what `error` says. An error that nobody foresaw is raised again, with its traceback."""
        from pydantic import ValidationError

        from schemas.goals import explain

        code = exit_code(error)
        if code is None:
            raise error
        text = explain(error) if isinstance(error, ValidationError) else str(error)
        if self.as_json:
            print(json.dumps({"error": text, "exit_code": code}))
        else:
            click.echo(f"blackboard: {text}", err=True)
        sys.exit(code)

    def say(self, record: dict[str, Any], text: str = "") -> None:
        """One result: `record` as a line of JSON with --json, else `text` (default: the record in words) on stdout."""
        if self.as_json:
            print(json.dumps(record), flush=True)
        else:
            print(text or "  ".join(f"{name} {value}" for name, value in record.items()), flush=True)


def exit_code(error: Exception) -> int | None:
    """The exit code that an error stands for; None for a defect of ours."""
    from pydantic import ValidationError

    from blackboard.client import BadInput
    from blackboard.log import LogError, LogUnavailable
    from blackboard.queue import QueueGone, QueueUnavailable
    from blackboard.server import ServerError
    from schemas.subjects import BadName

    code = getattr(error, "exit_code", None)
    if isinstance(code, int):
        return code
    if isinstance(error, (ServerError, LogUnavailable, QueueGone, QueueUnavailable)):
        return NO_BOARD
    if isinstance(error, (BadInput, BadName, ValidationError)):
        return USAGE
    if isinstance(error, BrokenPipeError):
        return None  # `| head` has enough: click ends quietly
    return 1 if isinstance(error, (LogError, OSError)) else None


def board_options(command: Callable[..., T]) -> Callable[..., T]:
    """Add --nats, --creds, --ca, --board, --name and --json; the command receives them as `options`, a BoardOptions."""

    @click.option(
        "--nats", metavar="URL", help="The server [default: $BLACKBOARD_NATS, else .blackboard here or above]."
    )
    @click.option("--creds", metavar="FILE", help="Credentials [default: $BLACKBOARD_CREDS, else the operator's keys].")
    @click.option("--ca", metavar="FILE", help="Who vouches for the server under TLS [default: $BLACKBOARD_CA].")
    @click.option("--board", metavar="NAME", help="The board [default: $BLACKBOARD_BOARD, else main].")
    @click.option("--name", metavar="NAME", help="Who you are on the board [default: $BLACKBOARD_NAME, else the user].")
    @click.option("--json", "as_json", is_flag=True, help="JSON on stdout, and nothing else there.")
    @functools.wraps(command)
    def with_options(
        *args: Any,
        nats: str | None,
        creds: str | None,
        ca: str | None,
        board: str | None,
        name: str | None,
        as_json: bool,
        **rest: Any,
    ) -> T:
        return command(*args, options=BoardOptions(nats, board, name, as_json, creds, ca), **rest)

    return with_options
