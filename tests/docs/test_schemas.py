"""docs/schemas holds what `blackboard schema MESSAGE` prints today."""

from tests.docs.schemas import FOLDER, rendered


def test_the_schemas_are_current() -> None:
    there = {path.name: path.read_text() for path in FOLDER.iterdir()}
    assert there == rendered(), "run `make schemas`"
