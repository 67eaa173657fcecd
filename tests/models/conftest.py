"""What tests of models share."""

from collections.abc import Iterator

import pytest

from specialists import chat
from specialists.recording import ELSE, RECORDING
from tests.models.real_server import real_model


@pytest.fixture(autouse=True)
def nothing_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "BLACKBOARD_MODEL", "BLACKBOARD_MODELS", RECORDING, ELSE):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(chat, "BACKOFF_S", (0.01, 0.05))
    chat._taken.clear()


@pytest.fixture(scope="session")
def real_url() -> Iterator[str]:
    """The base URL of a small real model."""
    with real_model() as url:
        yield url
