"""A log is decided again by a process in which sets have another order, so a decision that depends on one shows."""

import os
from contextlib import closing
from pathlib import Path

import pytest

from blackboard.simulation.elsewhere import Elsewhere, Failed

DECIDERS = """
import os
from types import SimpleNamespace

def decided(text):
    return {"r1": SimpleNamespace(h=text)}

def by_set(log_id, messages, batch):
    return decided(",".join({f"word {number}" for number in range(20)}))

def by_list(log_id, messages, batch):
    return decided(f"{log_id} {len(messages)} {batch}")

def not_at_all(log_id, messages, batch):
    raise LookupError("no such run")

def gone(log_id, messages, batch):
    os._exit(3)
"""


@pytest.fixture(autouse=True)
def _deciders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "deciders.py").write_text(DECIDERS)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))


def chains(name: str) -> str:
    with closing(Elsewhere(f"deciders:{name}")) as elsewhere:
        return elsewhere.chains("log", [], 7)["r1"]


@pytest.mark.parametrize("seed", ["0", "1", "4294967295"])
def test_order_of_a_set_is_another_one_there(seed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONHASHSEED", seed)
    there = chains("by_set")
    monkeypatch.setenv("PYTHONHASHSEED", str((int(seed) + 1) % 2**32))
    assert sorted(chains("by_set").split(",")) == sorted(there.split(","))
    assert chains("by_set") != there


def test_what_depends_on_no_order_is_the_same() -> None:
    assert chains("by_list") == "log 0 7"


def test_an_error_there_is_told() -> None:
    with pytest.raises(Failed, match="LookupError: no such run"):
        chains("not_at_all")


@pytest.mark.parametrize("name", ["gone", "nonesuch"])
def test_a_process_that_is_gone_says_nothing_about_the_log(name: str) -> None:
    with pytest.raises(SystemExit, match="is gone"):
        chains(name)
