"""The tree as the checks see it: files, modules, their syntax and their imports.

A tree is any folder with the layout of this repository, so that a test can plant a violation in a folder of its own.
"""

import ast
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

PACKAGES = ("schemas", "blackboard", "projections", "specialists", "supervisor")
NOT_SOURCE = {".git", ".venv", "__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache", "build", "dist"}

Where = Literal["module", "function", "typing"]
"""Imported when the module is, when a function runs, or by the type checker alone."""


@dataclass(frozen=True)
class Import:
    module: str
    """What stands after `import` or `from`."""
    name: str
    """What stands after `from ... import`; else empty."""
    line: int
    where: Where

    @property
    def target(self) -> str:
        return f"{self.module}.{self.name}" if self.name else self.module

    @property
    def top(self) -> str:
        return self.module.partition(".")[0]


@dataclass(frozen=True)
class Module:
    path: str
    """Relative to the root, with forward slashes."""
    text: str

    @cached_property
    def syntax(self) -> ast.Module:
        return ast.parse(self.text, self.path)

    @property
    def docstring(self) -> str:
        return ast.get_docstring(self.syntax) or ""

    @property
    def package(self) -> str:
        return self.path.partition("/")[0]

    @property
    def name(self) -> str:
        """As in an import: `schemas.events`; a package has the name of its folder."""
        return self.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")

    @cached_property
    def imports(self) -> list[Import]:
        return list(_imports(self.syntax, "module"))


class Tree:
    def __init__(self, root: Path) -> None:
        self.root = root.resolve()

    @cached_property
    def files(self) -> list[str]:
        """All files but ignored ones, also those that wait to be added."""
        listed = self._git_files("--cached", "--others", "--exclude-standard")
        if listed is None:
            found = (path.relative_to(self.root) for path in self.root.rglob("*") if path.is_file())
            listed = [path.as_posix() for path in found if not NOT_SOURCE.intersection(path.parts)]
        return sorted({path for path in listed if (self.root / path).is_file()})

    @cached_property
    def tracked(self) -> list[str]:
        listed = self._git_files("--cached")
        return self.files if listed is None else sorted(listed)

    @cached_property
    def python(self) -> list[Module]:
        return [Module(path, self.text(path)) for path in self.files if path.endswith(".py")]

    @cached_property
    def modules(self) -> dict[str, Module]:
        """The modules of the five packages by name."""
        return {module.name: module for module in self.python if module.package in PACKAGES}

    def text(self, path: str) -> str:
        return (self.root / path).read_text(encoding="utf-8", errors="replace")

    def resolve(self, found: Import) -> Module | None:
        """The module of ours that an import reaches: `from schemas import events` reaches `schemas.events`."""
        return self.modules.get(found.target) or self.modules.get(found.module)

    def _git_files(self, *options: str) -> list[str] | None:
        """None where the root is not the top of a checkout, or git is absent."""
        try:
            top = subprocess.run(
                ["git", "-C", str(self.root), "rev-parse", "--show-toplevel"], capture_output=True, text=True
            )
            if top.returncode or Path(top.stdout.strip()) != self.root:
                return None
            listed = subprocess.run(
                ["git", "-C", str(self.root), "ls-files", "-z", *options], capture_output=True, text=True, check=True
            )
        except OSError:
            return None
        return [path for path in listed.stdout.split("\0") if path]


def _imports(node: ast.AST, where: Where) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.Import(names=names):
                yield from (Import(alias.name, "", child.lineno, where) for alias in names)
            case ast.ImportFrom(module=module, names=names, level=level):
                stem = "." * level + (module or "")
                yield from (Import(stem, alias.name, child.lineno, where) for alias in names)
            case ast.Call(func=func, args=[ast.Constant(value=str(name)), *_]) if called(func) in DYNAMIC:
                yield Import(name, "", child.lineno, where)
            case ast.If(test=test, body=body, orelse=orelse) if called(test).endswith("TYPE_CHECKING"):
                yield from _imports(ast.Module(body, []), "typing")
                yield from _imports(ast.Module(orelse, []), where)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
                yield from _imports(child, "function")
            case _:
                yield from _imports(child, where)


DYNAMIC = ("import_module", "importlib.import_module", "__import__")


def called(node: ast.AST) -> str:
    """The dotted name of an expression: `importlib.import_module`; empty for what has none."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=attr):
            stem = called(value)
            return f"{stem}.{attr}" if stem else ""
    return ""
