"""Decides a recorded log again, in a process of its own: `python -m tests.supervisor.redeciding FILE BATCH`.

Prints, run by run, the head, the digest of the state and that of the outcome.
"""

import base64
import json
import sys
from collections.abc import Iterable
from pathlib import Path

from blackboard.log import Message
from projections.history import Folded, outcome_digest, state_digest
from supervisor.replay import redecide


def digests(runs: dict[str, Folded]) -> dict[str, list[str]]:
    return {run: [folded.h, state_digest(folded.state), outcome_digest(folded.state)] for run, folded in runs.items()}


def write(path: Path, messages: Iterable[Message]) -> None:
    """One message a line, without facts."""
    lines = [
        json.dumps([message.seq, message.subject, message.time_ms, base64.b64encode(message.data).decode()])
        for message in messages
        if ".fact." not in message.subject
    ]
    path.write_text("\n".join(lines))


def read(path: Path) -> list[Message]:
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return [Message(seq, subject, time_ms, base64.b64decode(data)) for seq, subject, time_ms, data in rows]


if __name__ == "__main__":
    print(json.dumps(digests(redecide("log-1", read(Path(sys.argv[1])), int(sys.argv[2]))), sort_keys=True))
