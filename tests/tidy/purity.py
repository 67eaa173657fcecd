"""What holds for pure modules: no clock, no randomness, no I/O, no order that hashing gives.

Two supervisors that fold the same log must write the same bytes, on any machine, today or in ten years. A module is
pure where the list below says so, or where a paragraph of its docstring starts with `Pure.` or `Pure:`.
"""

import ast
import re
from collections.abc import Iterator

from tests.tidy.rules import matches
from tests.tidy.source import Module, Tree, called

PURE = (
    "schemas/*.py",
    "blackboard/log.py",
    "blackboard/queue.py",
    "blackboard/blobs.py",
    "projections/canonical.py",
    "projections/evolve.py",
    "projections/history.py",
    "projections/provenance.py",
    "projections/audit.py",
    "supervisor/decide.py",
    "supervisor/policy.py",
    "supervisor/merge.py",
    "supervisor/replay.py",
    "specialists/specialist.py",
)

_CLOCK = "take the time from the state or from the input's timestamp"
_RANDOM = "derive the value by hashing run, step and attempt"
_SHELL = "let the shell do it and hand the value in"
IMPURE_MODULES = {
    "time": _CLOCK,
    **dict.fromkeys(("random", "secrets"), _RANDOM),
    **dict.fromkeys(("asyncio", "concurrent", "multiprocessing", "signal", "threading"), _SHELL),
    **dict.fromkeys(("http", "io", "os", "pathlib", "shutil", "socket", "sqlite3", "ssl", "subprocess", "sys"), _SHELL),
    **dict.fromkeys(("logging", "tempfile", "urllib", "uvloop"), _SHELL),
}
IMPURE_NAMES = {
    **dict.fromkeys(("date.today", "datetime.now", "datetime.today", "datetime.utcnow"), _CLOCK),
    **dict.fromkeys(("uuid.uuid1", "uuid.uuid4", "uuid1", "uuid4"), _RANDOM),
    **dict.fromkeys(("input", "open", "print"), _SHELL),
    "hash": "take a digest, `hash` differs from process to process",
}


def is_pure(module: Module) -> bool:
    return matches(module.path, PURE) or re.search(r"^Pure[.:]", module.docstring, re.MULTILINE) is not None


def pure_modules(tree: Tree) -> Iterator[Module]:
    return filter(is_pure, tree.modules.values())


def pure_modules_touch_nothing(tree: Tree) -> Iterator[str]:
    for module in pure_modules(tree):
        for found in module.imports:
            if found.where != "typing" and (advice := IMPURE_MODULES.get(found.top)):
                yield f"{module.path}:{found.line}: is pure and imports {found.target}; {advice}"
        for node in ast.walk(module.syntax):
            if isinstance(node, ast.Call):
                name = called(node.func)
                advice = IMPURE_NAMES.get(name) or IMPURE_NAMES.get(".".join(name.split(".")[-2:]))
                if advice:
                    yield f"{module.path}:{node.lineno}: is pure and calls {name}; {advice}"


def pure_modules_rest_on_pure_ones(tree: Tree) -> Iterator[str]:
    for module in pure_modules(tree):
        for found in module.imports:
            other = tree.resolve(found)
            if found.where != "typing" and other and not is_pure(other):
                yield (
                    f"{module.path}:{found.line}: is pure and imports {other.name}, which is not; import a pure one, "
                    "or start a paragraph of its docstring with `Pure.`"
                )


def pure_modules_follow_no_set_order(tree: Tree) -> Iterator[str]:
    for module in pure_modules(tree):
        for line in sorted(_SetOrder(module.syntax).lines):
            yield f"{module.path}:{line}: is pure and follows the order of a set; put `sorted(...)` around it"


class _SetOrder(ast.NodeVisitor):
    """Lines where the order of a set is seen. Finds set expressions and names that a scope binds to nothing else."""

    ORDER_FREE = ("all", "any", "frozenset", "len", "max", "min", "set", "sorted")
    FOLLOWS = ("dict.fromkeys", "enumerate", "filter", "iter", "list", "map", "tuple", "zip")
    TO_SET = ("difference", "intersection", "symmetric_difference", "union")

    def __init__(self, syntax: ast.Module) -> None:
        self.lines: set[int] = set()
        self._names: set[str] = set()
        self._order_free: set[ast.AST] = set()
        self._scope(syntax)

    def _scope(self, node: ast.AST) -> None:
        outer, bound = self._names, list(_bound(node))
        self._names = outer - {name for name, _ in bound}
        for _ in range(2):  # the second time for what is made of names
            self._names |= {name for name, value in bound if self._is_set(value)}
        self._names -= {name for name, value in bound if not self._is_set(value)}
        self.generic_visit(node)
        self._names = outer

    visit_FunctionDef = visit_AsyncFunctionDef = _scope

    def visit_For(self, node: ast.For) -> None:
        self._follow(node.iter)
        self.generic_visit(node)

    def visit_YieldFrom(self, node: ast.YieldFrom) -> None:
        self._follow(node.value)
        self.generic_visit(node)

    def visit_Starred(self, node: ast.Starred) -> None:
        self._follow(node.value)
        self.generic_visit(node)

    def visit_Set(self, node: ast.Set) -> None:
        for element in node.elts:
            self.visit(element.value if isinstance(element, ast.Starred) else element)

    def visit_Call(self, node: ast.Call) -> None:
        name = called(node.func)
        if name in self.ORDER_FREE:
            self._order_free.update(node.args)
        elif node not in self._order_free and (name in self.FOLLOWS or _method(node) == "join"):
            for argument in node.args:
                self._follow(argument)
        self.generic_visit(node)

    def _comprehension(self, node: ast.ListComp | ast.GeneratorExp | ast.DictComp) -> None:
        if node not in self._order_free:
            for part in node.generators:
                self._follow(part.iter)
        self.generic_visit(node)

    visit_ListComp = visit_GeneratorExp = visit_DictComp = _comprehension

    def _follow(self, node: ast.expr) -> None:
        if self._is_set(node):
            self.lines.add(node.lineno)

    def _is_set(self, node: ast.expr) -> bool:
        match node:
            case ast.Set() | ast.SetComp():
                return True
            case ast.Name(id=name):  # "set" where it is an annotation
                return name in self._names or name in ("set", "frozenset")
            case ast.Call(func=ast.Attribute(value=value, attr=attr)) if attr in self.TO_SET:
                return self._is_set(value)
            case ast.Call(func=func):
                return called(func) in ("set", "frozenset")
            case ast.BinOp(left=left, op=ast.BitOr() | ast.BitAnd() | ast.Sub() | ast.BitXor(), right=right):
                return any(self._is_set(side) or _method(side) in ("keys", "items") for side in (left, right))
            case ast.IfExp(body=body, orelse=orelse):
                return self._is_set(body) or self._is_set(orelse)
            case ast.Subscript(value=value):  # an annotation: set[str]
                return called(value) in ("set", "frozenset")
        return False


def _method(node: ast.expr) -> str:
    return node.func.attr if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else ""


def _bound(scope: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """The names that one scope binds, each with its value or, where there is one, its annotation."""
    for node in ast.iter_child_nodes(scope):
        match node:
            case ast.arg(arg=name, annotation=annotation):
                yield name, annotation or ast.Constant(None)
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                yield name, value
            case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation):
                yield name, annotation
            case ast.For(target=ast.Name(id=name)):
                yield name, ast.Constant(None)
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            yield from _bound(node)
