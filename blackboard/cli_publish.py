"""`blackboard publish`: a goal for a team."""

from typing import Any

import click

from blackboard.options import BoardOptions, board_options


@click.command()
@click.argument("team")
@click.argument("words", nargs=-1, metavar="[KEY=VALUE]...")
@click.option("--input", "whole", metavar="JSON", help="The whole input as JSON, or @FILE; KEY=VALUE go on top.")
@click.option("--run", metavar="ID", help="The run id; the same goal under the same id again is the same run.")
@click.option("--yes", "approve", is_flag=True, help="Approve in advance what the run would ask a person for.")
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
        ctx.invoke(watch, run=run_id, no_input=no_input, **_connection(options))


def _connection(options: BoardOptions) -> dict[str, Any]:
    return {"nats": options.nats, "board": options.board, "name": options.name, "as_json": options.as_json}


async def _publish(
    options: BoardOptions, team: str, words: tuple[str, ...], whole: str | None, run: str | None, approve: bool
) -> str:
    from blackboard.arguments import goal_input
    from blackboard.board import open_board
    from blackboard.client import Client

    settings = options.settings()
    async with open_board(settings.nats, settings.board, name="publisher") as board:
        client = Client(board, settings.name)
        playbook = await client.playbook(team)
        input = goal_input(words, whole, playbook.input)
        return await client.publish(team, input, run, approve)
