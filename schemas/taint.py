"""Taint: labels that say where content came from which nobody here has written: `tool:fetch`, `mcp:files`, `documents`.

Pure. Labels travel with claims, facts and tasks; who has read tainted content is tainted with its labels.
"""

from collections.abc import Iterable

Labels = tuple[str, ...]
LABELS_LIMIT = 16
"""Labels of one claim, fact or task; of more, the last stands for the rest."""
LABEL_CHARACTERS = 80
OTHERS = "~others"
"""The label that stands for the rest; it is sorted last."""


def joined(*several: Iterable[str]) -> Labels:
    """The labels of all of them: sorted, each once, bounded."""
    found = sorted({_bounded(label) for labels in several for label in labels})
    return tuple(found) if len(found) <= LABELS_LIMIT else (*found[: LABELS_LIMIT - 1], OTHERS)


def _bounded(label: str) -> str:
    return label[:LABEL_CHARACTERS].encode("utf-8", "backslashreplace").decode()[:LABEL_CHARACTERS]
