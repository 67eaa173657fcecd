"""An MCP server that serves documents, and has more tools than anybody was told of: `python server.py DOCUMENTS`."""

import json
import os
import sys
from pathlib import Path

from mcp.server.fastmcp import FastMCP

DOCUMENTS = json.loads(Path(sys.argv[1]).read_text())
server = FastMCP("files", log_level="ERROR")


@server.tool()
def read(path: str) -> str:
    """The text of a document."""
    way, text = DOCUMENTS[path]
    if way == "server-error":
        raise ValueError(text)
    return str(text)


@server.tool()
def write(path: str, text: str) -> str:
    """Write a file."""
    with open(os.environ["CALLS"], "a") as calls:
        calls.write(f"{path}\n")
    return "written"


for name, (way, text) in DOCUMENTS.items():
    if way == "description":
        server.add_tool(lambda: "sunny", name=f"tip-{name}", description=text)
server.run()
