"""A collector for each test, and the processes of the end-to-end tests."""

from collections.abc import Iterator

import pytest

from tests.end_to_end.conftest import shared, start, there
from tests.telemetry.receiver import Receiver

__all__ = ["collector", "shared", "start", "there"]


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    """A running collector, to which every process that the test starts sends its spans."""
    with Receiver() as receiver:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url)
        yield receiver
