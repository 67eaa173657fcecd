"""The recorded board of these tests."""

import asyncio

import pytest

from tests.tamper.recorded import Recorded, record


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    return asyncio.run(record(tmp_path_factory.mktemp("recorded")))
