"""Taking out a rule takes out that rule, as long as it is asked to, and says when there is no such rule."""

import inspect
from typing import Any, NamedTuple

import pytest

from projections import history
from supervisor.decide import NewerRules, decide
from supervisor.service import Supervisor
from tests.holes.removal import Edit, NoSuchRule, removed
from tests.holes.rows import ROWS
from tests.supervisor.scenario import run_with

OLDER = Edit("supervisor.decide", "if state.rules > rules:", "if False:")
FLOOR = Edit("supervisor.service", "return max(0, min([self.position,", "return self.position + max(0, min([0,")


class Board(NamedTuple):
    position: int
    committer: "Board | None" = None
    left: dict[str, int] = {}


def test_function_that_was_imported_before_is_the_other_one_meanwhile_and_itself_again() -> None:
    scenario = run_with()
    cause, view = scenario.inputs[-1], scenario.catalogue.below(99)

    def steps_back() -> bool:
        try:
            decide(scenario.state, cause, view, rules=0)
        except NewerRules:
            return True
        return False

    def fails() -> None:
        with removed(OLDER):
            assert not steps_back()
            raise AssertionError("what it came to")

    assert steps_back()
    with pytest.raises(AssertionError, match="what it came to"):
        fails()
    assert steps_back()


def test_properties_and_several_edits_of_one_module() -> None:
    here = Board(7, Board(0, left={"r1": 3}))
    floor: Any = inspect.getattr_static(Supervisor, "floor").fget
    assert floor(here) == 2
    with removed(FLOOR, Edit("supervisor.service", "        self._inbox.drop(taken)\n", "")):
        assert floor(here) == 7
    assert floor(here) == 2


@pytest.mark.parametrize(
    ("edit", "found"),
    [
        (Edit("projections.history", "if nothing of the kind:", ""), "has 0 times, not once"),
        (Edit("projections.history", "raise BrokenHistory(", ""), "has 5 times, not once"),
        (Edit("projections.history", "class BrokenHistory(Exception):", ""), "no function holds"),
    ],
)
def test_rule_that_is_not_there(edit: Edit, found: str) -> None:
    fold = history.fold.__code__
    with pytest.raises(NoSuchRule, match=found), removed(OLDER, edit):
        pytest.fail("it was not found missing")
    assert history.fold.__code__ is fold


def test_table_has_each_history_once_and_no_scenario_without_a_removal() -> None:
    holes = [hole for row in ROWS for hole in row.holes]
    assert len(ROWS) == len({row.history for row in ROWS}) == 24
    assert all(row.holes for row in ROWS)
    assert all(hole.removals for hole in holes)
    assert len({hole.scenario.__name__ for hole in holes}) == len(holes)
