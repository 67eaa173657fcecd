"""Report: reproducible, valid CycloneDX 1.6, and a table that its cells cannot break."""

import json
from importlib import resources
from typing import Any

import jsonschema_rs
import pytest

from specialists.licences.inventory import Inventory, Problem
from specialists.licences.report import render_markdown, render_sbom
from specialists.licences.verdict import Row


def row(name: str, licence: str, **more: Any) -> Row:
    defaults = {"version": "1.0", "decided_from": ["field"], "relation": "equal", "verdict": "allow", "reason": "fine"}
    return Row.model_validate({"name": name, "licence": licence, **defaults, **more})


ROWS = [
    row("b", "Apache-2.0 OR MIT", bundled=["Zlib"]),
    row("a", "MIT"),
    row("c", "GPL-2.0", verdict="deny", reason="x | y <b>"),
    row("d", ""),
    row("e", "LicenseRef-NVIDIA-Proprietary"),
    row("f", "BSD AND MIT"),
    row("g", "GPL-2.0-only WITH Classpath-exception-2.0"),
]
INVENTORY = Inventory(
    path="/env",
    distributions=["a==1.0"],
    problems=[Problem(where="x.dist-info", problem="no METADATA")],
    problem_count=3,
)


@pytest.mark.parametrize("render", [render_sbom, render_markdown])
def test_order_and_repetition_change_nothing(render: Any) -> None:
    assert render(ROWS, INVENTORY) == render(ROWS[::-1], INVENTORY)


def test_an_sbom_has_no_time_and_a_serial_number_of_its_content() -> None:
    document = json.loads(render_sbom(ROWS, INVENTORY))
    assert "timestamp" not in document["metadata"]
    assert document["serialNumber"] != json.loads(render_sbom(ROWS[1:], INVENTORY))["serialNumber"]
    assert [component["name"] for component in document["components"]] == list("abcdefg")


def test_a_family_is_a_name_and_not_an_spdx_id() -> None:
    components = json.loads(render_sbom(ROWS, INVENTORY))["components"]
    licences = [component.get("licenses") for component in components]
    assert licences[0] == [{"license": {"id": "MIT"}}]
    assert licences[1] == [{"expression": "Apache-2.0 OR MIT"}]
    assert licences[2] == [{"license": {"name": "GPL-2.0"}}]
    assert licences[3] is None
    assert licences[5] == [{"license": {"name": "BSD AND MIT"}}]


def test_an_sbom_meets_the_schema_of_cyclonedx() -> None:
    folder = resources.files("cyclonedx.schema._res")

    def load(name: str) -> Any:
        return json.loads((folder / name).read_text(encoding="utf-8"))

    def retrieve(uri: str) -> Any:
        return load(uri.rsplit("/", 1)[-1])

    validator = jsonschema_rs.validator_for(load("bom-1.6.SNAPSHOT.schema.json"), retriever=retrieve)
    assert [error.message for error in validator.iter_errors(json.loads(render_sbom(ROWS, INVENTORY)))] == []


def test_a_table_names_what_a_person_decides_and_its_cells_stay_cells() -> None:
    text = render_markdown(ROWS, INVENTORY).decode()
    assert "- **deny** c 1.0: x \\| y &lt;b>" in text
    assert "| b 1.0 | Apache-2.0 OR MIT (bundles Zlib) | field | equal | allow |" in text
    assert "## Problems (3)" in text
    assert "- and 2 more" in text
