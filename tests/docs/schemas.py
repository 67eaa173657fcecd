"""What of the documents is made from code: the JSON Schemas of all messages, as files for those who write in another
language (`docs/schemas/<message>.json`), and the table of permissions in docs/access.md.

python -m tests.docs.schemas      writes them (`make schemas`)
"""

import json
from pathlib import Path

from blackboard.cli_schema import MESSAGES, message_schema
from schemas.access import table

FOLDER = Path(__file__).parents[2] / "docs" / "schemas"
ACCESS = FOLDER.parent / "access.md"


def rendered() -> dict[str, str]:
    """File name -> content, as `blackboard schema <message>` prints it."""
    return {f"{name}.json": json.dumps(message_schema(name), indent=2) + "\n" for name in MESSAGES}


def with_table(text: str) -> str:
    """docs/access.md with the table of permissions as it is."""
    before, begin, rest = text.partition("<!-- table -->\n")
    _, end, after = rest.partition("<!-- end of table -->\n")
    assert end, "docs/access.md has no place for the table"
    return f"{before}{begin}{table()}{end}{after}"


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    current = rendered()
    for stale in {path.name for path in FOLDER.iterdir()} - set(current):
        (FOLDER / stale).unlink()
    for name, text in current.items():
        (FOLDER / name).write_text(text)
    ACCESS.write_text(with_table(ACCESS.read_text()))
    print(f"schemas: {len(current)} in {FOLDER.relative_to(FOLDER.parents[1])}")


if __name__ == "__main__":
    main()
