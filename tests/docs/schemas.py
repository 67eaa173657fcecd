"""The JSON Schemas of all messages, as files for those who write in another language: `docs/schemas/<message>.json`.

python -m tests.docs.schemas      writes them (`make schemas`)
"""

import json
from pathlib import Path

from blackboard.cli_schema import MESSAGES, message_schema

FOLDER = Path(__file__).parents[2] / "docs" / "schemas"


def rendered() -> dict[str, str]:
    """File name -> content, as `blackboard schema <message>` prints it."""
    return {f"{name}.json": json.dumps(message_schema(name), indent=2) + "\n" for name in MESSAGES}


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    current = rendered()
    for stale in {path.name for path in FOLDER.iterdir()} - set(current):
        (FOLDER / stale).unlink()
    for name, text in current.items():
        (FOLDER / name).write_text(text)
    print(f"schemas: {len(current)} in {FOLDER.relative_to(FOLDER.parents[1])}")


if __name__ == "__main__":
    main()
