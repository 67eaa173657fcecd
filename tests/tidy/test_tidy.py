"""The tree is tidy, and each check is shown to find what it is for."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.tidy import purity, rules
from tests.tidy.source import PACKAGES, Tree

ROOT = Path(__file__).parents[2]

Check = Callable[[Tree], Iterator[str]]
CHECKS: tuple[Check, ...] = (
    rules.files_can_be_parsed,
    rules.import_direction,
    rules.import_cycles,
    rules.one_importer_per_library,
    rules.imports_stand_on_top,
    rules.packages_explain_themselves_and_load_nothing,
    rules.names_say_something,
    rules.functions_fit_a_screen,
    rules.files_fit_a_sitting,
    rules.no_paths_of_a_machine,
    rules.pins_name_no_place,
    rules.nothing_else_on_top,
    purity.pure_modules_touch_nothing,
    purity.pure_modules_rest_on_pure_ones,
    purity.pure_modules_follow_no_set_order,
)

TIDY = {f"{package}/__init__.py": '"""What it is for."""\n' for package in PACKAGES} | {
    "blackboard/log.py": '"""Promises."""\n\nfrom schemas import events\n\n\nclass Log:\n    """Appends."""\n',
    "blackboard/jetstream.py": '"""The log."""\n\nimport asyncio\n\nimport nats\n\nfrom blackboard.log import Log\n',
    "blackboard/cli.py": '"""Verbs."""\n\n\ndef main():\n    import click\n',
    "projections/canonical.py": '"""Pure. The state."""\n\nfrom schemas.events import Event\n',
    "schemas/events.py": '"""Pure. Events."""\n\n\nclass Event:\n    """One."""\n',
    "supervisor/decide.py": (
        '"""Pure. The decision."""\n\nfrom typing import TYPE_CHECKING\n\n'
        "from projections.canonical import State\n\n"
        "if TYPE_CHECKING:\n    from pathlib import Path\n\n    from blackboard.jetstream import JetStream\n\n\n"
        "def decide(state, names: set[str]):\n"
        "    return sorted(names), any(name in state for name in names), [*sorted({1, 2} | {3})], len({1}), {*names}\n"
    ),
    "constraints.txt": "click==8.3.1\n",
    "README.md": "Run `make demo`; the log lies in `/tmp/boards`, the tasks in `~/work/`.\n",
}


def plant(root: Path, files: dict[str, str]) -> Tree:
    for path, text in (TIDY | files).items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return Tree(root)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_tree(check: Check) -> None:
    findings = list(check(Tree(ROOT)))
    assert not findings, "\n" + "\n".join(findings)


def test_tidy_tree_has_no_findings(tmp_path: Path) -> None:
    tree = plant(tmp_path, {})
    assert [finding for check in CHECKS for finding in check(tree)] == []


def pure(text: str) -> dict[str, str]:
    return {"supervisor/merge.py": f'"""Merging.\n\nPure. Nothing else."""\n{text}\n'}


VIOLATIONS: list[tuple[Check, dict[str, str], str]] = [
    (rules.files_can_be_parsed, {"schemas/codec.py": "def\n"}, "schemas/codec.py:1: "),
    (
        rules.import_direction,
        {"schemas/codec.py": "import blackboard.log\n"},
        "schemas/codec.py:1: imports blackboard.log; schemas may import none of the packages",
    ),
    (
        rules.import_direction,
        {"blackboard/client.py": "import json\nfrom projections import canonical\n"},
        "blackboard/client.py:2: imports projections.canonical; blackboard may import schemas",
    ),
    (
        rules.import_direction,
        {"specialists/worker.py": "def work():\n    from supervisor import decide\n"},
        "specialists/worker.py:2: imports supervisor.decide; specialists may import blackboard, schemas",
    ),
    (
        rules.import_direction,
        {"supervisor/service.py": "from projections.runner import Runner\n"},
        "supervisor/service.py:1: imports projections.runner.Runner; supervisor may import",
    ),
    (
        rules.import_direction,
        {"blackboard/testing.py": "import importlib\n\nS = importlib.import_module('supervisor.service')\n"},
        "blackboard/testing.py:3: imports supervisor.service; blackboard may import schemas",
    ),
    (
        rules.import_cycles,
        {
            "blackboard/access.py": "import nats\nfrom blackboard import client\n",
            "blackboard/client.py": "import blackboard.settings\n",
            "blackboard/settings.py": "from blackboard.access import grant\n",
        },
        "blackboard/access.py:2: imports in a circle, blackboard.access -> blackboard.client -> blackboard.settings ->",
    ),
    (
        rules.one_importer_per_library,
        {"supervisor/service.py": "import nats.js\n"},
        "supervisor/service.py:1: imports nats; that belongs to blackboard/*",
    ),
    (
        rules.one_importer_per_library,
        {"blackboard/client.py": "from opentelemetry import trace\n"},
        "blackboard/client.py:1: imports opentelemetry; that belongs to blackboard/telemetry.py",
    ),
    (
        rules.one_importer_per_library,
        {"specialists/planner.py": "import openai\n"},
        "specialists/planner.py:1: imports openai; that belongs to specialists/llm.py",
    ),
    (
        rules.one_importer_per_library,
        {"supervisor/service.py": "import eventsourcing.projection\n"},
        "supervisor/service.py:1: imports eventsourcing; that belongs to projections/*",
    ),
    (
        rules.one_importer_per_library,
        {"projections/runner.py": "from rich.table import Table\n"},
        "projections/runner.py:1: imports rich; that belongs to */cli.py",
    ),
    (
        rules.imports_stand_on_top,
        {"supervisor/service.py": "async def serve():\n    import json\n"},
        "supervisor/service.py:2: imports json inside a function",
    ),
    (
        rules.packages_explain_themselves_and_load_nothing,
        {"specialists/__init__.py": "VERSION = 1\n"},
        "specialists/__init__.py:1: has no docstring",
    ),
    (
        rules.packages_explain_themselves_and_load_nothing,
        {"specialists/__init__.py": '"""Who works."""\nfrom specialists.worker import Worker\n'},
        "specialists/__init__.py:2: imports specialists.worker.Worker at once",
    ),
    (
        rules.packages_explain_themselves_and_load_nothing,
        {"specialists/licences/team.py": ""},
        "specialists/licences/__init__.py:1: is missing",
    ),
    (rules.names_say_something, {"schemas/utils.py": ""}, "schemas/utils.py:1: the name utils says nothing"),
    (rules.names_say_something, {"tests/helpers/log.py": ""}, "tests/helpers/log.py:1: the name helpers says nothing"),
    (
        rules.functions_fit_a_screen,
        {"schemas/codec.py": "\ndef encode():\n" + "    ...\n" * 60},
        "schemas/codec.py:2: encode has 61 lines; divide it, the limit is 60",
    ),
    (
        rules.files_fit_a_sitting,
        {"schemas/codec.py": "\n" * 451},
        "schemas/codec.py:451: the file has 451 lines; divide it, the limit is 450",
    ),
    (rules.no_paths_of_a_machine, {"docs/start.md": "\ncd /" + "root/board\n"}, "docs/start.md:2: names /" + "root"),
    (rules.pins_name_no_place, {"constraints.txt": "a==1\nb @ file:///b\n"}, "constraints.txt:2: says where"),
    (
        rules.pins_name_no_place,
        {"docs/requirements.txt": "-i https://host/simple\n"},
        "docs/requirements.txt:1: says where",
    ),
    (rules.nothing_else_on_top, {"notes.md": ""}, "notes.md:1: is new at the top"),
    (rules.nothing_else_on_top, {"scripts/run.py": ""}, "scripts:1: is new at the top"),
    (
        purity.pure_modules_touch_nothing,
        {"supervisor/decide.py": "import time\n"},
        "supervisor/decide.py:1: is pure and imports time; take the time from the state",
    ),
    (purity.pure_modules_touch_nothing, pure("import asyncio"), "supervisor/merge.py:4: is pure and imports asyncio"),
    (
        purity.pure_modules_touch_nothing,
        pure("from os import path"),
        "supervisor/merge.py:4: is pure and imports os.path",
    ),
    (
        purity.pure_modules_touch_nothing,
        pure("import datetime\nNOW = datetime.datetime.now()"),
        "supervisor/merge.py:5: is pure and calls datetime.datetime.now",
    ),
    (
        purity.pure_modules_touch_nothing,
        pure("from datetime import datetime as datetime\nNOW = datetime.now()"),
        "supervisor/merge.py:5: is pure and calls datetime.now",
    ),
    (
        purity.pure_modules_touch_nothing,
        pure("import uuid\nID = uuid.uuid4()"),
        "supervisor/merge.py:5: is pure and calls uuid.uuid4",
    ),
    (purity.pure_modules_touch_nothing, pure("open('x')"), "supervisor/merge.py:4: is pure and calls open"),
    (purity.pure_modules_touch_nothing, pure("hash('x')"), "supervisor/merge.py:4: is pure and calls hash"),
    (
        purity.pure_modules_touch_nothing,
        {"specialists/norms.py": '"""Pure: names."""\nimport secrets\n'},
        "specialists/norms.py:2: is pure and imports secrets",
    ),
    (
        purity.pure_modules_rest_on_pure_ones,
        {"supervisor/replay.py": "from blackboard import jetstream\n"},
        "supervisor/replay.py:1: is pure and imports blackboard.jetstream, which is not",
    ),
    *(
        (
            purity.pure_modules_follow_no_set_order,
            pure(text),
            "supervisor/merge.py:4: is pure and follows the order of a set",
        )
        for text in (
            "for key in {1, 2}: ...",
            "for key in set(()): ...",
            "for key in frozenset(()) | other: ...",
            "for key in a.keys() - b.keys(): ...",
            "for key in {1}.union(()): ...",
            "ORDER = [key for key in {n for n in ()}]",
            "ORDER = {key: 1 for key in set(())}",
            "ORDER = list(set(()))",
            "ORDER = ','.join({'a'})",
            "ORDER = [*{1}]",
            "KEYS = frozenset(()); ORDER = tuple(KEYS)",
            "def f(keys: set[str]): return list(keys)",
            "def f(keys): wanted = set(keys); wanted = wanted | {1}; return [key for key in wanted]",
        )
    ),
]


@pytest.mark.parametrize(("check", "files", "finding"), VIOLATIONS, ids=lambda value: getattr(value, "__name__", ""))
def test_violation_is_found(check: Check, files: dict[str, str], finding: str, tmp_path: Path) -> None:
    findings = list(check(plant(tmp_path, files)))
    assert [line for line in findings if line.startswith(finding)], findings
    assert len(findings) == 1, findings
    assert "; " in findings[0], "a finding says what to do"


def test_path_of_the_checkout_is_found(tmp_path: Path) -> None:
    root = tmp_path / "checkout"
    around = plant(root, {"docs/start.md": f"in {tmp_path}/other\n"})
    assert len(list(rules.no_paths_of_a_machine(around))) == 1


def test_each_check_has_a_violation() -> None:
    assert {check for check, _, _ in VIOLATIONS} == set(CHECKS)


BANNED = """import datetime, os, time, uuid
import random
import secrets
datetime.date.today()
datetime.datetime.now()
datetime.datetime.utcnow()
os.urandom(8)
time.monotonic()
time.monotonic_ns()
time.perf_counter()
time.time()
time.time_ns()
uuid.uuid1()
uuid.uuid4()
"""


@pytest.mark.parametrize("path", [pattern.replace("*", "events") for pattern in purity.PURE])
def test_linter_bans_clock_and_randomness(path: str) -> None:
    assert banned_lines(path) == set(range(2, 15))


@pytest.mark.parametrize(
    "path",
    [
        "blackboard/jetstream.py",
        "supervisor/service.py",
        "specialists/worker.py",
        "projections/runner.py",
        "tests/x.py",
    ],
)
def test_linter_leaves_shells_alone(path: str) -> None:
    assert banned_lines(path) == set()


def banned_lines(path: str) -> set[int]:
    """Lines of BANNED that the linter finds when they stand in `path`."""
    command = [sys.executable, "-m", "ruff", "check", "--no-cache", "--select=TID251", "--output-format=concise"]
    found = subprocess.run(
        [*command, f"--stdin-filename={path}", "-"], cwd=ROOT, input=BANNED, capture_output=True, text=True
    )
    assert not found.stderr.strip(), found.stderr
    return {int(line.split(":")[1]) for line in found.stdout.splitlines() if "TID251" in line}
