"""The audit for others to read: an SBOM for machines (CycloneDX 1.6) and a table for people. The same rows give the
same bytes.

An SBOM usually carries the time and a random serial number. This one has no time, and its serial number is derived
from what it lists, so that two audits of the same environment can be compared byte by byte.
"""

import json
from collections.abc import Iterable
from uuid import NAMESPACE_URL, UUID, uuid5

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import Property
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.license import DisjunctiveLicense, License
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

from specialists.licences.expressions import leaves, parse
from specialists.licences.families import is_family
from specialists.licences.inventory import Inventory
from specialists.licences.verdict import Row, summarise


def render_sbom(rows: Iterable[Row], inventory: Inventory) -> bytes:
    """CycloneDX JSON 1.6, one library component a row; verdict, relation and bundled licences are properties of it."""
    components = [_component(row) for row in sorted(rows, key=_order)]
    bom = Bom(components=components, serial_number=UUID(int=0), version=1)
    bom.metadata.properties.update([Property(name="licences:problems", value=str(inventory.problem_count))])
    document = json.loads(JsonV1Dot6(bom).output_as_string())
    document["metadata"].pop("timestamp", None)
    document.pop("serialNumber", None)
    document["serialNumber"] = uuid5(NAMESPACE_URL, json.dumps(document, sort_keys=True)).urn
    return (json.dumps(document, indent=2, sort_keys=True) + "\n").encode()


def render_markdown(rows: Iterable[Row], inventory: Inventory) -> bytes:
    """A summary, the rows that need a person, all rows, and the problems of the environment."""
    rows = sorted(rows, key=_order)
    counts = summarise(rows)
    lines = ["# Licence audit", "", f"Environment: `{inventory.path}`", ""]
    lines += ["| " + " | ".join(counts) + " |", "|" + " ---: |" * len(counts)]
    lines += ["| " + " | ".join(str(count) for count in counts.values()) + " |"]
    open_rows = [row for row in rows if row.verdict != "allow"]
    if open_rows:
        lines += ["", "## To decide", ""]
        lines += [f"- **{row.verdict}** {row.name} {row.version}: {_cell(row.reason)}" for row in open_rows]
    lines += ["", "## Distributions", ""]
    lines += _table(rows)
    if inventory.problem_count:
        lines += ["", f"## Problems ({inventory.problem_count})", ""]
        lines += [f"- `{problem.where}`: {_cell(problem.problem)}" for problem in inventory.problems]
        left = inventory.problem_count - len(inventory.problems)
        lines += [f"- and {left} more"] if left else []
    return ("\n".join(lines) + "\n").encode()


def _order(row: Row) -> tuple[str, str]:
    return row.name, row.version


def _component(row: Row) -> Component:
    purl = PackageURL(type="pypi", name=row.name, version=row.version)
    properties = [
        Property(name="licences:verdict", value=row.verdict),
        Property(name="licences:relation", value=row.relation),
        *(Property(name="licences:bundled", value=text) for text in row.bundled),
    ]
    component = Component(
        type=ComponentType.LIBRARY,
        name=row.name,
        version=row.version,
        purl=purl,
        bom_ref=purl.to_string(),
        properties=properties,
    )
    if row.licence:
        component.licenses.add(_licence(row.licence))
    return component


def _licence(stated: str) -> License:
    """An SPDX id or expression as such. A family is given as a licence's name: `GPL-2.0` would otherwise say `only`."""
    if any(is_family(leaf.name) for leaf in leaves(parse(stated))):
        return DisjunctiveLicense(name=stated)
    return LicenseFactory().make_from_string(stated)


def _table(rows: list[Row]) -> list[str]:
    lines = ["| distribution | licence | decided from | sources | verdict |", "| --- | --- | --- | --- | --- |"]
    for row in rows:
        bundled = f" (bundles {', '.join(row.bundled)})" if row.bundled else ""
        licence = (row.licence or "?") + bundled
        cells = [f"{row.name} {row.version}", licence, ", ".join(row.decided_from), row.relation, row.verdict]
        lines.append("| " + " | ".join(_cell(cell) for cell in cells) + " |")
    return lines


def _cell(text: str) -> str:
    """Text that stays in its cell: what distributions say must not draw tables or HTML of its own."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")
