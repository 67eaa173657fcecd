"""A server in operator mode with a board under attack: one for each module."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from blackboard.access import Access
from blackboard.server import EmbeddedServer
from tests.access.attacking import Aims, Ground, ground, laid_out

TASKS = 150
"""Of the attacker: more than it takes."""


@pytest.fixture(scope="module")
def access(tmp_path_factory: pytest.TempPathFactory) -> Access:
    return Access.init(tmp_path_factory.mktemp("operator") / "access")


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory, access: Access) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("attacked")
    with EmbeddedServer(folder, access.server_settings(folder / "jwt")) as server:
        yield server.url


@pytest.fixture(scope="module")
def aims(url: str, access: Access) -> Aims:
    return asyncio.run(laid_out(url, access, TASKS))


@pytest.fixture
async def field(url: str, access: Access, aims: Aims) -> AsyncIterator[Ground]:
    async with ground(url, access) as found:
        yield found
