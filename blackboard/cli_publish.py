"""`blackboard publish`: a goal for a team."""

import re
from dataclasses import asdict
from decimal import Decimal, InvalidOperation, Overflow
from typing import TYPE_CHECKING, Any

import click

from blackboard.options import BoardOptions, board_options
from schemas.access import Role

if TYPE_CHECKING:
    from schemas.goals import Budget

SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)([smhd])")


@click.command()
@click.argument("team")
@click.argument("words", nargs=-1, metavar="[KEY=VALUE]...")
@click.option("--input", "whole", metavar="JSON", help="The whole input as JSON, or @FILE; KEY=VALUE go on top.")
@click.option("--run", metavar="ID", help="The run id; the same goal under the same id again is the same run.")
@click.option("--yes", "approve", is_flag=True, help="Approve in advance what the run would ask a person for.")
@click.option(
    "--budget",
    metavar="LIMITS",
    multiple=True,
    help="What the run may use: tokens=N, tool-calls=N, usd=X, with commas between them.",
)
@click.option("--deadline", metavar="TIME", help="When the run ends at the latest: 90s, 10m, 1h30m, 2d.")
@click.option("--no-input", is_flag=True, help="With --wait: exit with 7 when the run waits for a person.")
@click.option("--wait", is_flag=True, help="Follow the run until it ends; the exit code tells how.")
@board_options
@click.pass_context
def publish(
    ctx: click.Context,
    /,
    team: str,
    words: tuple[str, ...],
    wait: bool,
    no_input: bool,
    options: BoardOptions,
    **goal: Any,
) -> None:
    """Publish a goal to TEAM and print its run id.

    KEY=VALUE are fields of the input; `blackboard schema TEAM` shows them.
    """
    run_id = options.run(_publish(options, team, words, **goal), role="client")
    if not (wait and options.as_json):
        options.say({"run": run_id}, run_id)
    if wait:
        group = ctx.parent and ctx.parent.command
        watch = group.get_command(ctx, "watch") if isinstance(group, click.Group) else None
        assert watch is not None, "the table of verbs has `watch`"
        ctx.invoke(watch, run=run_id, no_input=no_input, **asdict(options))


async def _publish(
    options: BoardOptions,
    team: str,
    words: tuple[str, ...],
    whole: str | None,
    run: str | None,
    approve: bool,
    budget: tuple[str, ...],
    deadline: str | None,
) -> str:
    from blackboard.arguments import goal_input
    from blackboard.client import Client

    limits, deadline_s = read_budget(budget), read_duration(deadline) if deadline is not None else None
    settings = options.settings()
    async with settings.open("publisher", Role.PUBLISHER) as board:
        client = Client(board, settings.name)
        playbook = await client.playbook(team)
        input = goal_input(words, whole, playbook.input)
        return await client.publish(team, input, run, approve, budget=limits, deadline_s=deadline_s)


def read_budget(texts: tuple[str, ...]) -> "Budget":
    """`tokens=1000,usd=1.25` as a budget. Raises BadInput."""
    from blackboard.client import BadInput
    from schemas.goals import Budget
    from schemas.usage import COUNT_LIMIT

    found: dict[str, int] = {}
    for part in ",".join(texts).split(",") if texts else ():
        name, _, text = part.strip().partition("=")
        field = {"tokens": "tokens", "tool-calls": "tool_calls", "usd": "micro_usd"}.get(name)
        if field is None:
            raise BadInput(f"--budget: {part.strip()!r} is none of tokens=N, tool-calls=N and usd=X")
        if field in found:
            raise BadInput(f"--budget: {name} is said twice")
        try:
            amount = Decimal(text) * (1_000_000 if name == "usd" else 1)
        except InvalidOperation:
            raise BadInput(f"--budget: {name}={text!r} is no number") from None
        except Overflow:
            amount = Decimal("Infinity")
        if amount.is_nan() or not 0 <= amount <= COUNT_LIMIT or amount != int(amount):
            what = "dollars and millionths of them" if name == "usd" else "a whole number"
            raise BadInput(f"--budget: {name}={text!r} is not {what}, from 0 on")
        found[field] = int(amount)
    return Budget(**found)


def read_duration(text: str, option: str = "--deadline") -> float:
    """`1h30m` in seconds; a plain number is seconds. Raises BadInput, which names the `option`."""
    from blackboard.client import BadInput

    parts = _DURATION.findall(text) or _DURATION.findall(f"{text}s")
    seconds = sum(float(number) * SECONDS[unit] for number, unit in parts)
    written = "".join(number + unit for number, unit in parts)
    if written not in {text, f"{text}s"} or not 0 < seconds <= 366 * SECONDS["d"]:
        raise BadInput(f"{option}: {text!r} is no time of at most 366 days; write 90s, 10m, 1h30m or 2d")
    return seconds
