"""How witnesses are written on the command line."""

from collections.abc import Iterable
from pathlib import Path

from blackboard.client import BadInput
from blackboard.jetstream_heads import HeadsStream
from projections.witness import Witness
from projections.witness_file import FileWitness
from projections.witness_git import GitWitness

FORMS = "file:PATH, git:FOLDER, git:FOLDER#REMOTE or nats://HOST:PORT#SUBJECT"
SERVERS = ("nats://", "tls://", "ws://", "wss://")


def witnesses_of(forms: Iterable[str], board: str) -> list[Witness]:
    """For the heads of `board`. Raises BadInput."""
    found = {one.name: one for one in (_witness(form, board) for form in forms)}
    return list(found.values())


def _witness(form: str, board: str) -> Witness:
    kind, _, place = form.partition(":")
    before, _, behind = place.rpartition("#")
    if form.startswith(SERVERS) and before and behind:
        try:
            return HeadsStream(f"{kind}:{before}", behind)
        except ValueError as error:
            raise BadInput(f"{form[:80]!r}: {error}; behind the ? may stand creds=FILE and ca=FILE") from None
    if kind == "file" and place:
        return FileWitness(Path(place).expanduser())
    if kind == "git" and place:
        folder, _, remote = place.partition("#")
        return GitWitness(Path(folder).expanduser(), board, remote)
    raise BadInput(f"{form[:80]!r} is no witness; write {FORMS}")
