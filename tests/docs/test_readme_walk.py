"""A stranger's first hour: every command of README.md, docs/attach.md and docs/merging.md is run, in order, on a fresh
copy of the checkout, and prints what the document says."""

import os
import shutil
import sys
from pathlib import Path

import pytest

from tests.docs.walk import DOCUMENTS, ROOT, Reader, Wrong, read_walk, same_shape
from tests.tidy.source import Tree


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """All files that are or will be in the repository, and the environment that `make` would have made."""
    for name in Tree(ROOT).files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / ".venv").symlink_to(sys.prefix)
    return tmp_path


def environment(checkout: Path) -> dict[str, str]:
    """Ours, without what names a board; the command is that of the environment, with the packages of the copy. What pip
    installs goes into a folder of the copy."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("BLACKBOARD_")}
    path = f"{Path(sys.executable).parent}{os.pathsep}{kept.get('PATH', '')}"
    installed = str(checkout / ".installed")
    packages = {"PYTHONPATH": f"{checkout}{os.pathsep}{installed}", "PIP_TARGET": installed}
    return kept | {"PATH": path, "COLUMNS": "200", "XDG_CACHE_HOME": str(checkout / ".cache"), **packages}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_command_does_what_the_document_says(document: str, checkout: Path) -> None:
    walk = read_walk(document, (checkout / document).read_text())
    assert walk.commands
    with Reader(checkout, environment(checkout)) as reader:
        reader.follow(walk)
    assert reader.done == len(walk.commands)


# --- and the walk itself notices -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "```\nfalse\n```",
        "<!-- walk: exits 3 -->\n```\ntrue\n```",
        "```\necho one\n```\n\n```text\ntwo\n```",
        "<!-- walk: prints one two -->\n```\necho one\n```",
        "<!-- walk: prints one -->\n```\necho one\necho two\n```",
        "<!-- walk: background; until up -->\n```\necho down\n```",
        "<!-- walk: ends sleep -->\n```\ntrue\n```",
        "<!-- walk: sometimes -->\n```\ntrue\n```",
        "<!-- walk: make -->\n```\nmake nothing-of-that-name\n```",
        "<!-- walk: exits 3 -->\n\nNo block follows.",
        "```bash\ntrue\n```",
        "```python\ndef\n```",
    ],
)
def test_a_document_that_is_not_so_is_wrong(text: str, tmp_path: Path) -> None:
    with pytest.raises((Wrong, SyntaxError)), Reader(tmp_path, dict(os.environ)) as reader:
        reader.follow(read_walk("some.md", text))


def test_a_document_that_is_so(tmp_path: Path) -> None:
    text = """
<!-- walk: file greeting.txt -->
```text
hello
```

<!-- walk: background; until ready at 1 -->
```
sh -c 'echo ready at 17; exec sleep 60'
```

```
cat greeting.txt; \\
    echo 3 files, digest 0123456789abcdef
```

```text
hello
12 files, ... fedcba9876543210
```

<!-- walk: ends sh -c; types you; prints hello you -->
```
read name && echo hello $name    # a comment
```
"""
    with Reader(tmp_path, dict(os.environ)) as reader:
        reader.follow(read_walk("some.md", text))
    assert reader.done == 3


@pytest.mark.parametrize(
    ("expected", "said", "same"),
    [
        ("run a-0123456789 has 3 facts", "run a-fedcba0987 has 12 facts", True),
        ("one ... three", "one\n two\n three", True),
        ("one ... three", "one three", True),
        ("one...", "one", True),
        ("5.7 s", "12.0 s", True),
        ("5.7 s", "12 s", False),
        ("one (two) *", "one (two) *", True),
        ("one two", "one three", False),
        ("one", "one two", False),
    ],
)
def test_shape(expected: str, said: str, same: bool) -> None:
    assert same_shape(expected, said) == same
