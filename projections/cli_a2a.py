"""`blackboard a2a`: the board as an agent that others can give tasks to."""

import click

from blackboard.options import BoardOptions, board_options
from schemas.access import Role


@click.command()
@click.option(
    "--http", "port", metavar="PORT", type=click.IntRange(0, 65_535), default=0, help="The port [default: any]."
)
@board_options
def a2a(port: int, options: BoardOptions) -> None:
    """Serve the board over A2A, on 127.0.0.1: its teams are the skills of one agent, a task is a run.

    What a run asks people is answered on the board.
    """
    options.run(_serve(options, port), role="client")


async def _serve(options: BoardOptions, port: int) -> None:
    from blackboard.client import BadInput

    try:
        from projections.a2a_server import make_app
        from projections.loopback import listening, serve
    except ImportError as error:
        raise BadInput(f"this needs the A2A SDK ({error}): pip install 'blackboard[a2a]'") from None
    settings = options.settings()
    with listening(port) as bound:
        url = f"http://127.0.0.1:{bound.getsockname()[1]}"
        async with settings.open("a2a", Role.CONSOLE) as board:
            options.say({"event": "listening", "url": url}, f"A2A agent at {url}")
            await serve(make_app(board, settings.name, url), bound)
