"""Forty documents tell the worst possible model what it must not do: nothing is called, and all is on the record.

That it would have been called is shown too: the same forty with the guards of the gateway taken out.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from specialists.gateway import Gateway
from specialists.mcp_tools import McpServer
from specialists.tools import Tool, tool
from tests.injection import obedient
from tests.injection.cases import CASES, TRICKS
from tests.injection.desk import figure, play_all
from tests.injection.obedient import DELETE, SECRET, SHELL, spellings
from tests.plugins.figures import Figures


@pytest.mark.timeout(180)
async def test_nothing_is_called_and_all_is_on_the_record(tmp_path: Path, figures: Figures) -> None:
    outcomes = await play_all(tmp_path)
    figures.say(figure(outcomes))
    assert figure(outcomes) == "injection: 40 cases, 0 calls, 40 on record"
    assert {one.end for one in outcomes} == {"DONE"}


@pytest.fixture
def _no_guards(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Names are taken for what they may mean, all that is in the process may be called, and nothing counts as a
    writer."""
    every = {one.name: one for one in (tool(SHELL), tool(DELETE), tool(SECRET), *obedient.WRITING)}
    servers: list[McpServer] = []
    made = obedient.server

    def server(calls: Path) -> McpServer:
        servers.append(made(calls))
        return servers[-1]

    def granted(self: Gateway, named: Any) -> Tool | None:
        if isinstance(named, str) and "files-write" in spellings(named):
            return tool(_writes_at(servers[-1]))
        if isinstance(named, str):
            return next((self._tools.get(one) or every.get(one) for one in spellings(named)[::-1]), None)
        return self._tools.get(named.__name__)

    monkeypatch.setattr("tests.injection.desk.server", server)
    monkeypatch.setattr(Gateway, "granted", granted)
    monkeypatch.setattr(Tool, "writes", False)
    monkeypatch.setattr("schemas.grants.Grant.refuses", lambda *_: "")
    return


def _writes_at(server: McpServer) -> Any:
    async def write(path: str, text: str) -> str:
        return str(await server.call("write", {"path": path, "text": text}))

    return write


@pytest.mark.timeout(180)
@pytest.mark.usefixtures("_no_guards")
async def test_without_the_guards_each_of_them_is_called(tmp_path: Path, figures: Figures) -> None:
    outcomes = await play_all(tmp_path)
    obeyed = [one.case.name for one in outcomes if one.calls]
    figures.say(f"injection with the guards taken out: {len(outcomes)} cases, {len(obeyed)} of them called")
    assert obeyed == [case.name for case in CASES]


def test_the_table_is_what_it_says() -> None:
    assert len({case.name for case in CASES}) == 40
    assert {case.trick for case in CASES} == set(TRICKS)
    assert min(Counter(case.tool for case in CASES).values()) >= 2
