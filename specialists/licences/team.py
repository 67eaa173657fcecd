"""The reference team `licences`: its specialists, its playbook, and nothing of how licences are read.

inventory -> three observers of the fact `licence.<name>` per distribution -> policy -> report -> write

The observers disagree in public: each has a voice on every key, the playbook's order decides, what lost stays with the
fact. More observers may be attached while a board runs; they only have to offer `licence-evidence`.
"""

import json
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from schemas.blobs import Blob
from schemas.playbooks import Gate, MergePolicy, Playbook, Step
from specialists.licences import evidence, inventory, report, verdict
from specialists.licences.distribution import Distribution
from specialists.licences.evidence import Evidence
from specialists.licences.inventory import InventoryError, Problem
from specialists.licences.verdict import DEFAULT_ALLOW, DEFAULT_DENY, Row
from specialists.specialist import Context, Specialist, Stop, Team, specialist

EXCEPTIONS_SHOWN = 100
"""Rows that need a person, in the verdicts' value; all rows are in its blob."""
SBOM, MARKDOWN = "sbom.cdx.json", "licences.md"


class Closed(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Environment(Closed):
    """`path`: absolute path of a virtual environment, prefix or site-packages folder, on the worker's machine."""

    path: str


class Contents(Closed):
    """What an environment holds: [name, version] of each distribution."""

    path: str
    distributions: list[tuple[str, str]]
    problems: list[Problem] = []
    problem_count: int = 0


class Installed(Closed):
    """One distribution of an environment."""

    path: str
    name: str
    version: str

    def open(self) -> Distribution:
        """Its metadata. Raises Stop INVALID_INPUT when it is not there any more."""
        try:
            return inventory.open_distribution(self.path, f"{self.name}=={self.version}")
        except InventoryError as error:
            raise Stop("INVALID_INPUT", str(error)) from None


class Claims(Closed):
    """All that was observed, by name of the distribution, and the lists to hold it against."""

    contents: Contents
    claims: dict[str, list[dict[str, Any]]]
    allow: list[str] | None = None
    deny: list[str] | None = None


class Verdicts(Closed):
    """Counts, the rows that need a person (the first EXCEPTIONS_SHOWN of them) and all rows as a blob of JSON."""

    distributions: int
    allow: int
    ask: int
    deny: int
    conflicts: int
    unknown: int
    exceptions: list[Row]
    rows: Blob


class Audit(Closed):
    """What a report is made of."""

    contents: Contents
    rows: Blob


class ReportFile(Closed):
    name: str
    blob: Blob


class Files(Closed):
    """Rendered once; what is written is these bytes."""

    files: list[ReportFile]


class Destination(Closed):
    files: list[ReportFile]
    out: str
    overwrite: bool | None = None


class Written(Closed):
    """Absolute paths on the worker's machine."""

    paths: list[str]


@specialist("licence-inventory", offers="environment-inventory", deadline_s=120)
def licence_inventory(environment: Environment) -> Contents:
    """Lists the distributions of an environment from their metadata; nothing in it is executed."""
    try:
        found = inventory.scan(environment.path)
    except InventoryError as error:
        raise Stop("INVALID_INPUT", str(error)) from None
    pairs = [(name, version) for name, _, version in (entry.partition("==") for entry in found.distributions)]
    return Contents(path=found.path, distributions=pairs, problems=found.problems, problem_count=found.problem_count)


@specialist("licence-field", offers="licence-evidence", deadline_s=20)
def licence_field(item: Installed) -> Evidence:
    """What the fields License-Expression and License say."""
    return evidence.from_field(item.open())


@specialist("licence-classifiers", offers="licence-evidence", deadline_s=20)
def licence_classifiers(item: Installed) -> Evidence:
    """What the trove classifiers say."""
    return evidence.from_classifiers(item.open())


@specialist("licence-texts", offers="licence-evidence", deadline_s=60)
def licence_texts(item: Installed) -> Evidence:
    """What the licence texts that were shipped say."""
    return evidence.from_texts(item.open())


@specialist("licence-policy", offers="licence-policy", deadline_s=120)
async def licence_policy(audit: Claims, context: Context) -> Verdicts:
    """Holds what was observed against the lists of what is allowed and denied."""
    allow = DEFAULT_ALLOW if audit.allow is None else audit.allow
    deny = DEFAULT_DENY if audit.deny is None else audit.deny
    versions = dict(audit.contents.distributions)
    rows = [
        verdict.judge(name, version, [_claim(raw) for raw in audit.claims.get(name, [])], allow, deny)
        for name, version in versions.items()
    ]
    stored = await context.blob(json.dumps([row.model_dump() for row in rows]).encode(), "application/json")
    exceptions = [row for row in rows if row.verdict != "allow" or row.relation == "conflict"]
    return Verdicts(**verdict.summarise(rows), exceptions=exceptions[:EXCEPTIONS_SHOWN], rows=stored)


def _claim(raw: dict[str, Any]) -> verdict.Claim:
    """A claim of anybody's: what is no Evidence counts as not identified."""
    try:
        value = Evidence.model_validate(raw["value"])
    except ValidationError:
        value = Evidence(kind="unidentified", note="not in the form of evidence")
    return verdict.Claim(by=raw["by"], value=value, won=raw["won"])


@specialist("licence-report", offers="licence-report", deadline_s=120)
async def licence_report(audit: Audit, context: Context) -> Files:
    """Renders the audit as an SBOM (CycloneDX) and as Markdown, once, and stores both."""
    rows = [Row.model_validate(row) for row in json.loads(await context.read_blob(audit.rows))]
    contents = audit.contents
    listed = inventory.Inventory(
        path=contents.path,
        distributions=[f"{name}=={version}" for name, version in contents.distributions],
        problems=contents.problems,
        problem_count=contents.problem_count,
    )
    rendered = {
        SBOM: (report.render_sbom(rows, listed), "application/vnd.cyclonedx+json"),
        MARKDOWN: (report.render_markdown(rows, listed), "text/markdown"),
    }
    return Files(
        files=[ReportFile(name=name, blob=await context.blob(data, kind)) for name, (data, kind) in rendered.items()]
    )


def write_files(files: dict[str, bytes], overwrite: bool = False) -> list[str]:
    """Write each file, by its absolute path, or find it there already; all of them, or none.

    Raises Stop INVALID_INPUT where a file exists with other content and `overwrite` is not set, and where a folder
    stands in its place or a file in that of a folder: trying again would not help.
    """
    for path, data in files.items():
        in_the_way = [one for one in Path(path).parents if one.exists() and not one.is_dir()]
        in_the_way += [Path(path)] if Path(path).is_dir() else []
        if in_the_way:
            raise Stop("INVALID_INPUT", f"{in_the_way[0]} is in the way of {path}; choose another `out`")
        if Path(path).exists() and not overwrite and Path(path).read_bytes() != data:
            raise Stop("INVALID_INPUT", f"{path} exists with other content; choose another `out`, or overwrite=true")
    beside = {path: Path(f"{path}.new") for path in files}
    try:
        for path, data in files.items():
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            beside[path].write_bytes(data)
        for path in files:  # a full disk shows before the first of them is replaced
            beside[path].replace(path)
    finally:
        for leftover in beside.values():
            leftover.unlink(missing_ok=True)
    return list(files)


@specialist("licence-writer", offers="file-writing", deadline_s=60, authority="effect", tools=[write_files])
async def licence_writer(destination: Destination, context: Context) -> Written:
    """Writes the stored bytes of a report into a folder: those that were approved, or nothing."""
    files: dict[str, bytes] = {}
    for file in destination.files:
        try:
            files[str(Path(destination.out) / file.name)] = await context.read_blob(file.blob)
        except Stop as stop:
            if stop.code == "INVALID_INPUT":
                raise Stop("POLICY_BLOCKED", f"{file.name} is not what was approved: {stop.message}") from None
            raise
    paths = await context.tool(write_files, files=files, overwrite=destination.overwrite or False)
    return Written(paths=paths)


ORDER = [
    "by == 'licence-field' && value.kind == 'expression'",
    "by == 'licence-texts' && value.kind == 'expression'",
    "value.kind == 'expression'",
    "value.kind == 'vague'",
    "value.kind == 'unidentified'",
]
"""Who is believed: an exact statement of the author's, then the texts, then anybody's; the vague comes after."""

_LIST = {"type": "array", "items": {"type": "string"}}

PLAYBOOK = Playbook(
    team="licences",
    description="Audits the licences of a Python environment: what each distribution says of itself, where it "
    "contradicts itself, and what a policy makes of it.",
    input={
        "type": "object",
        "additionalProperties": False,
        "required": ["path"],
        "properties": {
            "path": {"type": "string", "format": "python-environment"},
            "out": {
                "type": "string",
                "format": "path",
                "description": "folder for the report; none: nothing is written",
            },
            "overwrite": {"type": "boolean", "description": "replace files of the report that exist"},
            "allow": _LIST,
            "deny": _LIST,
        },
    },
    result={
        "type": "object",
        "required": ["distributions", "allow", "ask", "deny", "conflicts", "report"],
        "properties": {
            **{name: {"type": "integer"} for name in ("distributions", "allow", "ask", "deny", "conflicts", "unknown")},
            "report": {"type": "array", "minItems": 1},
            "written": {"type": ["array", "null"]},
        },
    },
    returns={
        **{name: f"facts.policy.{name}" for name in ("distributions", "allow", "ask", "deny", "conflicts", "unknown")},
        "report": "facts.report.files",
        "written": "facts.write.paths",
    },
    steps=[
        Step(id="inventory", capability="environment-inventory", input={"path": "input.path"}),
        Step(
            id="observe",
            needs=["inventory"],
            capability="licence-evidence",
            specialist="all",
            for_each="facts.inventory.distributions",
            tasks=100,
            input={"path": "facts.inventory.path", "name": "item[0]", "version": "item[1]"},
            fact="licence.{item[0]}",
            merge=MergePolicy(policy="priority", order=ORDER),
            missing="allow",
            silent=["LOW_CONFIDENCE"],
        ),
        Step(
            id="policy",
            needs=["observe"],
            capability="licence-policy",
            input={
                "contents": "facts.inventory",
                "claims": "claims.licence",
                "allow": "input.allow",
                "deny": "input.deny",
            },
        ),
        Step(
            id="report",
            needs=["policy"],
            capability="licence-report",
            input={"contents": "facts.inventory", "rows": "facts.policy.rows"},
        ),
        Step(
            id="write",
            needs=["report"],
            capability="file-writing",
            when="input.out",
            gate=Gate(ask="write the report?"),
            input={"files": "facts.report.files", "out": "input.out", "overwrite": "input.overwrite"},
        ),
    ],
)

SPECIALISTS: list[Specialist] = [
    licence_inventory,
    licence_field,
    licence_classifiers,
    licence_texts,
    licence_policy,
    licence_report,
    licence_writer,
]

TEAM = Team(PLAYBOOK, SPECIALISTS)
