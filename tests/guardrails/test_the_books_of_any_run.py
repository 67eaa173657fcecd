"""Budgets of any run at every version: random playbooks, specialists that overspend, ends late, twice and foreign.

With GUARDRAILS_RUNS=2000 so many lives, and others each time.
"""

import os
from collections import Counter
from hashlib import shake_256

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from schemas.usage import Amount
from tests.guardrails.books import DIMENSIONS, within
from tests.guardrails.worlds import Life, Tape
from tests.plugins.figures import Figures
from tests.supervisor.scenario import RUN

TAPES = st.builds(
    lambda seed, size: shake_256(seed.to_bytes(8, "big")).digest(size), st.integers(0, 2**64 - 1), st.integers(100, 600)
)
"""Bytes that are spread evenly; a shorter tape begins like the longer one."""
ANY = settings(
    max_examples=int(os.environ.get("GUARDRAILS_RUNS", "120")),
    deadline=None,
    derandomize="GUARDRAILS_RUNS" not in os.environ,
    suppress_health_check=list(HealthCheck),
)


def test_books_hold_at_every_event(figures: Figures) -> None:
    """`Books` checks them: what is charged and reserved is within the budget, what was reported is what was charged and
    what went over, and nothing is given out after an overrun, nor what could not be paid."""
    happened: Counter[str] = Counter()
    over = exhausted = runs = 0

    @ANY
    @given(TAPES)
    def live(tape: bytes) -> None:
        nonlocal over, exhausted, runs
        books = Life(Tape(tape)).live()
        happened.update(books.happened)
        states = [folded.state for run, folded in books.folded.items() if run != "_board"]
        runs += len(states)
        over += sum(bool(state.overrun) for state in states)
        exhausted += sum("BUDGET_EXCEEDED" in f"{state.code} {state.reason}" for state in states)

    live()
    figures.say(f"books: {runs} runs, {happened.total()} events, {over} runs overrun, {exhausted} exhausted")
    for kind in ("input_late", "share_kept", "task_delayed", "breaker_opened", "gate_opened"):
        assert happened[kind], (kind, happened)


def test_tree_spends_no_more_than_its_root_has(figures: Figures) -> None:
    """Whatever child runs do, whenever they end: what all attempts of the tree have used of their reservations, and
    what is set aside for those that have not said it, is within the budget of the first goal."""
    trees = kept = 0

    @ANY
    @given(TAPES)
    def live(tape: bytes) -> None:
        nonlocal trees, kept
        books = Life(Tape(tape), overspends=False, twice=False).live()
        trees += len(books.folded) > 2
        kept += books.happened["share_kept"]
        total, limits = within(books.spent, books.reserved), books.of(RUN).budget
        for name in DIMENSIONS:
            limit = getattr(limits, name)
            assert limit is None or getattr(total, name) <= limit, (name, total, limits)
        assert all(folded.state.overrun == Amount() for folded in books.folded.values())

    live()
    figures.say(f"trees: {trees} of more than one run within the budget of their root, {kept} shares kept")
    assert min(trees, kept) > 0
