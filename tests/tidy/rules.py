"""What holds for the whole tree: who imports whom, who owns a library, how long things are, what lies where.

Each check is a function from a tree to its findings, `file:line: what is wrong; what to do`. `purity` holds the checks
of the pure modules; `CHECKS` in `test_tidy` is the list of all.
"""

import ast
import re
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

from tests.tidy.source import PACKAGES, Tree

MAY_IMPORT = {
    "schemas": (),
    "blackboard": ("schemas",),
    "projections": ("blackboard", "schemas"),
    "specialists": ("blackboard", "schemas"),
    "supervisor": (
        "blackboard",
        "schemas",
        "projections.bookings",
        "projections.canonical",
        "projections.evolve",
        "projections.history",
    ),
}
"""The direction of imports. Where a name of a package stands, all of the package may be imported."""

TERMINAL = ("*/cli.py", "*/cli_*.py", "blackboard/options.py", "projections/console.py")
"""The modules that talk to a terminal."""

OWNERS = {
    "nats": ("blackboard/*",),
    "nkeys": ("blackboard/*",),
    "opentelemetry": ("blackboard/telemetry.py",),
    "openai": ("specialists/llm.py",),
    "mcp": ("specialists/mcp_session.py", "projections/mcp_server.py"),
    "a2a": ("projections/a2a_server.py",),
    "uvicorn": ("projections/loopback.py",),
    "eventsourcing": ("projections/*",),
    "click": TERMINAL,
    "rich": TERMINAL,
}
"""One importer for each service library."""

MAY_IMPORT_LATE = {
    "*/cli.py": "a verb pays for its own imports only",
    "*/cli_*.py": "a verb pays for its own imports only",
    "blackboard/options.py": "every verb imports it, also those that need no board",
    "*/__init__.py": "a package costs nothing until a name is used",
    "blackboard/testing.py": "composes both sides by name; hypothesis may be absent",
    "blackboard/telemetry.py": "opentelemetry may be absent",
    "specialists/llm.py": "openai may be absent",
    "specialists/mcp_tools.py": "mcp may be absent",
    "projections/views.py": "the driver of PostgreSQL may be absent",
}
"""Where a function may import, and why."""

AT_START_OF_A_PACKAGE = {"__future__", "importlib", "typing"}
VAGUE_NAMES = {"util", "utils", "helper", "helpers", "base", "manager", "managers"}
FUNCTION_LINES = 60
FILE_LINES = 450
TOP_LEVEL = {
    *PACKAGES,
    *("tests", "docs", "examples", "benchmarks", "pyproject.toml", "constraints.txt", "docker-compose.yml", "Makefile"),
    *("README.md", "LICENSE"),
}


def matches(path: str, patterns: tuple[str, ...] | dict[str, str]) -> bool:
    return any(fnmatch(path, pattern) for pattern in patterns)


def import_direction(tree: Tree) -> Iterator[str]:
    for module in tree.modules.values():
        allowed = MAY_IMPORT[module.package]
        for found in module.imports:
            if found.top not in PACKAGES or found.top == module.package:
                continue
            if not any(f"{found.target}.".startswith(f"{name}.") for name in allowed):
                may = ", ".join(allowed) or "none of the packages"
                yield (
                    f"{module.path}:{found.line}: imports {found.target}; {module.package} may import {may}: "
                    "move the code down or meet in the log"
                )


def import_cycles(tree: Tree) -> Iterator[str]:
    """Over the imports that run when a module is imported."""
    edges: dict[str, dict[str, int]] = {}
    for module in tree.modules.values():
        reached = ((tree.resolve(found), found.line) for found in module.imports if found.where == "module")
        edges[module.name] = {other.name: line for other, line in reached if other and other is not module}
    done: set[str] = set()
    for start in sorted(edges):
        for cycle in _cycles_from(start, edges, done):
            first, second = tree.modules[cycle[0]], cycle[1]
            yield (
                f"{first.path}:{edges[first.name][second]}: imports in a circle, {' -> '.join(cycle)}; "
                "move what both need into a module below them"
            )


def _cycles_from(start: str, edges: dict[str, dict[str, int]], done: set[str]) -> Iterator[list[str]]:
    trail: list[str] = []

    def visit(name: str) -> Iterator[list[str]]:
        if name in trail:
            yield [*trail[trail.index(name) :], name]
        elif name not in done:
            trail.append(name)
            for following in sorted(edges[name]):
                yield from visit(following)
            trail.pop()
            done.add(name)

    yield from visit(start)


def one_importer_per_library(tree: Tree) -> Iterator[str]:
    for module in tree.modules.values():
        for found in module.imports:
            owners = OWNERS.get(found.top)
            if owners and not matches(module.path, owners):
                yield f"{module.path}:{found.line}: imports {found.top}; that belongs to {', '.join(owners)}: call that"


def imports_stand_on_top(tree: Tree) -> Iterator[str]:
    for module in tree.modules.values():
        for found in module.imports:
            if found.where == "function" and not matches(module.path, MAY_IMPORT_LATE):
                yield (
                    f"{module.path}:{found.line}: imports {found.target} inside a function; import it on top, or give "
                    "the reason in MAY_IMPORT_LATE"
                )


def packages_explain_themselves_and_load_nothing(tree: Tree) -> Iterator[str]:
    modules = {module.path: module for module in tree.modules.values()}
    for folder in sorted({path.rpartition("/")[0] for path in modules}):
        module = modules.get(f"{folder}/__init__.py")
        if module is None:
            yield f"{folder}/__init__.py:1: is missing; say in its docstring what the folder is for"
            continue
        if not module.docstring:
            yield f"{module.path}:1: has no docstring; say what the folder is for"
        for found in module.imports:
            if found.where == "module" and found.top not in AT_START_OF_A_PACKAGE:
                yield f"{module.path}:{found.line}: imports {found.target} at once; import it in `__getattr__`"


def names_say_something(tree: Tree) -> Iterator[str]:
    for module in tree.python:
        vague = VAGUE_NAMES.intersection(module.name.lower().split("."))
        if vague:
            yield f"{module.path}:1: the name {vague.pop()} says nothing; name what the module does"


def functions_fit_a_screen(tree: Tree) -> Iterator[str]:
    for module in tree.modules.values():
        for node in ast.walk(module.syntax):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                if lines > FUNCTION_LINES:
                    yield (
                        f"{module.path}:{node.lineno}: {node.name} has {lines} lines; divide it, the limit is "
                        f"{FUNCTION_LINES}"
                    )


def files_fit_a_sitting(tree: Tree) -> Iterator[str]:
    for module in tree.modules.values():
        lines = len(module.text.splitlines())
        if lines > FILE_LINES:
            yield f"{module.path}:{FILE_LINES + 1}: the file has {lines} lines; divide it, the limit is {FILE_LINES}"


def no_paths_of_a_machine(tree: Tree) -> Iterator[str]:
    places = _places(tree.root)
    for path in tree.files:
        text = tree.text(path)
        found = [place for place in places if place in text]
        for number, line in enumerate(text.splitlines() if found else (), 1):
            for place in found:
                if re.search(rf"(?<![\w.~-]){re.escape(place)}((?<=/)|(?![\w-]))", line):
                    yield f"{path}:{number}: names {place} of one machine; write a path relative to the checkout"


def _places(root: Path) -> list[str]:
    """The checkout, the folder around it unless every machine has one of that name, and home folders."""
    everywhere = {
        Path(name) for name in ("/", "/app", "/home", "/mnt", "/opt", "/src", "/srv", "/tmp", "/usr", "/var/tmp")
    }
    folders = [folder for folder in (root, root.parent) if folder not in everywhere]
    return [*map(str, folders), "/" + "root/"]


def pins_name_no_place(tree: Tree) -> Iterator[str]:
    for path in tree.files:
        if not fnmatch(Path(path).name, "constraints*.txt") and not fnmatch(Path(path).name, "requirements*.txt"):
            continue
        for number, line in enumerate(tree.text(path).splitlines(), 1):
            if re.search(r"://|\bfile:|\s@\s|^\s*-", line):
                yield f"{path}:{number}: says where packages come from; keep name==version alone (`make constraints`)"


def nothing_else_on_top(tree: Tree) -> Iterator[str]:
    for entry in sorted({path.partition("/")[0] for path in tree.tracked}):
        if not entry.startswith(".") and entry not in TOP_LEVEL:
            yield f"{entry}:1: is new at the top; put it into a folder, or into TOP_LEVEL"


def files_can_be_parsed(tree: Tree) -> Iterator[str]:
    """First in the list: the checks after it need the syntax."""
    for module in tree.python:
        try:
            compile(module.text, module.path, "exec", ast.PyCF_ONLY_AST)
        except SyntaxError as error:
            yield f"{module.path}:{error.lineno or 1}: {error.msg}; mend the syntax"
