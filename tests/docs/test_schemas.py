"""docs/schemas holds what `blackboard schema MESSAGE` prints today."""

from tests.docs.schemas import ACCESS, FOLDER, rendered, with_table


def test_the_schemas_are_current() -> None:
    there = {path.name: path.read_text() for path in FOLDER.iterdir()}
    assert there == rendered(), "run `make schemas`"


def test_the_table_of_permissions_is_current() -> None:
    assert ACCESS.read_text() == with_table(ACCESS.read_text()), "run `make schemas`"
