"""The audit of the environment that runs these tests."""

import sys
from typing import Any

from specialists.licences.inventory import scan
from specialists.licences.report import render_markdown, render_sbom


def test_it_is_uvloop(audit: Any) -> None:
    inventory = scan(sys.prefix)
    rows = [audit(inventory.path, token) for token in inventory.distributions]
    assert [row.name for row in rows if row.relation == "conflict"] == ["uvloop"]
    assert [row.name for row in rows if row.verdict == "deny"] == []
    assert [row.name for row in rows if not row.licence] == []


def test_auditing_twice_gives_the_same_bytes(audit: Any) -> None:
    inventory = scan(sys.prefix)
    tokens = inventory.distributions[:12]
    first, second = ([audit(inventory.path, token) for token in order] for order in (tokens, tokens[::-1]))
    assert render_sbom(first, inventory) == render_sbom(second, inventory)
    assert render_markdown(first, inventory) == render_markdown(second, inventory)
