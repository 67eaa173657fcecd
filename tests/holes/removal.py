"""Taking a rule out of the running code: the text that says it, and what stands there without it.

A rule is named by its source, so that the table of rows shows it, and a rule that was written anew is found to be no
longer there. Only the code of the function around the text is exchanged, in place: whoever has imported the function
calls the other code, and the one as it is again afterwards.
"""

import ast
import importlib
import inspect
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from types import CodeType, FunctionType
from typing import Any, NamedTuple


class NoSuchRule(LookupError):
    """The text of a rule does not stand where the removal says, or not once."""


class Edit(NamedTuple):
    """In the module `module`, inside one function, `new` instead of `old`."""

    module: str
    old: str
    new: str


@contextmanager
def removed(*edits: Edit) -> Iterator[None]:
    """The code with all `edits` made. Raises NoSuchRule."""
    with ExitStack() as stack:
        for module in {edit.module: None for edit in edits}:
            stack.enter_context(_exchanged(module, [edit for edit in edits if edit.module == module]))
        yield


@contextmanager
def _exchanged(name: str, edits: Sequence[Edit]) -> Iterator[None]:
    module = importlib.import_module(name)
    source = changed = inspect.getsource(module)
    names: set[str] = set()
    for edit in edits:
        if source.count(edit.old) != 1 or changed.count(edit.old) != 1:
            raise NoSuchRule(f"{name} has {source.count(edit.old)} times, not once: {edit.old!r}")
        names.add(_function_around(source, edit))
        changed = changed.replace(edit.old, edit.new)
    codes = dict(_codes(compile(changed, module.__file__ or name, "exec", dont_inherit=True)))
    functions = {one: _function(module, one) for one in names}
    before = {one: function.__code__ for one, function in functions.items()}
    try:
        for one, function in functions.items():
            function.__code__ = codes[one]
        yield
    finally:
        for one, function in functions.items():
            function.__code__ = before[one]


def _function_around(source: str, edit: Edit) -> str:
    """The qualified name of the function or method, not of one inside another, that holds the text."""
    first = source[: source.index(edit.old)].count("\n") + 1
    last = first + edit.old.rstrip("\n").count("\n")
    for node, name in _functions(ast.parse(source).body, ""):
        if node.lineno <= first and last <= (node.end_lineno or node.lineno):
            return name
    raise NoSuchRule(f"{edit.module}: no function holds {edit.old!r}")


def _functions(body: Sequence[ast.stmt], prefix: str) -> Iterator[tuple[ast.stmt, str]]:
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node, prefix + node.name
        elif isinstance(node, ast.ClassDef):
            yield from _functions(node.body, f"{prefix}{node.name}.")


def _codes(code: CodeType) -> Iterator[tuple[str, CodeType]]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant.co_qualname, constant
            yield from _codes(constant)


def _function(module: Any, name: str) -> FunctionType:
    found: Any = module
    for part in name.split("."):
        found = inspect.getattr_static(found, part)
    found = found.fget if isinstance(found, property) else getattr(found, "__func__", found)
    function = inspect.unwrap(found)
    assert isinstance(function, FunctionType)
    return function
