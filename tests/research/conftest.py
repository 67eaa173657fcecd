"""What tests of the research team share: a cache of their own, no model, and folders of documents."""

from collections.abc import Callable
from pathlib import Path

import pytest

from specialists import chat

Folder = Callable[..., Path]
"""The fixture `folder`: writes files, `name="text"` or bytes, and gives their folder."""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "BLACKBOARD_MODEL", "BLACKBOARD_MODELS", "BLACKBOARD_RECORDING"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(chat, "BACKOFF_S", (0.01, 0.05))
    chat._taken.clear()
    place = tmp_path / "cache"
    monkeypatch.setenv("BLACKBOARD_CACHE", str(place))
    return place


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    def write(files: dict[str, str | bytes], name: str = "docs") -> Path:
        root = tmp_path / name
        root.mkdir(exist_ok=True)
        for place, content in files.items():
            path = root / place
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        return root

    return write
