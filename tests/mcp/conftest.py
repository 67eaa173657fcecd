"""A bench for each test."""

import pytest

from tests.specialists.bench import Bench


@pytest.fixture
def bench() -> Bench:
    return Bench()
