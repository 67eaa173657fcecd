"""`blackboard mcp`: the board as tools for any MCP client."""

import click

from blackboard.options import BoardOptions, board_options
from schemas.access import Role


@click.command()
@click.option(
    "--http", "port", metavar="PORT", type=click.IntRange(0, 65_535), help="Listen on 127.0.0.1; 0: any port."
)
@click.option("--as", "person", metavar="NAME", help="Also offer approve, deny and answer, in the name of NAME.")
@board_options
def mcp(port: int | None, person: str | None, options: BoardOptions) -> None:
    """Serve the board to an MCP client: publish goals, wait, read facts, why, and what waits for people.

    Over stdio, as clients start servers; with --http over streamable HTTP. Nothing is approved or answered unless --as
    says in whose name: whoever may use the server then decides for that person.
    """
    options.run(_serve(options, port, person or ""), role="client")


async def _serve(options: BoardOptions, port: int | None, person: str) -> None:
    from blackboard.client import BadInput

    try:
        from projections.loopback import listening
        from projections.mcp_server import BoardTools, make_server, serve_http, serve_stdio
    except ImportError as error:
        raise BadInput(f"this needs the MCP SDK ({error}): pip install 'blackboard[mcp]'") from None
    settings = options.settings()
    async with settings.open("mcp", Role.CONSOLE) as board:
        server = make_server(BoardTools(board, settings.name, person), answers=bool(person))
        if port is None:
            await serve_stdio(server)
            return
        with listening(port) as bound:
            url = f"http://127.0.0.1:{bound.getsockname()[1]}/mcp"
            options.say({"event": "listening", "url": url, "as": person}, f"MCP server at {url}")
            await serve_http(server, bound)
