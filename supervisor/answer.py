"""From a message to its events: what it says, and which run answers it.

Pure. Most inputs are answered by the run that they name; what no run takes is recorded in `_board`. The two are stored
one after the other, so when an input is decided again either may be further than the other: each answer depends on
what its own run had decided by then, never on how far the other one is.
"""

from collections.abc import Sequence

from blackboard.log import Message
from projections.history import Folded
from schemas import events as e
from schemas.catalogue import Catalogue, View
from schemas.codec import sha256
from schemas.inputs import Input, Unreadable, read_input
from schemas.subjects import BOARD_RUN, CATALOGUE_FAMILIES, Address, BadName, Subjects
from supervisor.decide import Rejected, decide, decide_board


def read_message(message: Message, subjects: Subjects, catalogue: Catalogue) -> Input | None:
    """The input that a message is; None for a fact, and for an artefact, which the catalogue takes in."""
    try:
        address = subjects.parse(message.subject)
    except BadName as bad:
        return _unreadable(message, Address("unknown", "", BOARD_RUN), str(bad))
    if address.family == "fact":
        return None
    if address.family not in CATALOGUE_FAMILIES:
        return read_input(message.seq, message.subject, address, message.time_ms, message.data)
    problem = catalogue.add(message.seq, address, message.data)
    return _unreadable(message, address._replace(run=BOARD_RUN), f"{address.family}: {problem}") if problem else None


def _unreadable(message: Message, address: Address, reason: str) -> Input:
    return Input(message.seq, sha256(message.data), message.time_ms, message.subject, address, Unreadable(reason))


def answer(
    named: Folded, board: Folded, cause: Input, view: View, rules: int | None = None
) -> tuple[Folded, Sequence[e.Event]]:
    """The run that answers `cause`, as it was before, and the events there. `named` is the run that the input names,
    `board` is `_board`, `rules` the version of the rules (None: this release's). Raises NewerRules."""
    events = _decided(named, cause, view, rules)
    if not isinstance(events, Rejected):
        return named, events
    if cause.seq <= board.cursor:
        return board, []
    return board, decide_board(board.state, cause, view, events.reason)


def _decided(named: Folded, cause: Input, view: View, rules: int | None) -> list[e.Event] | Rejected:
    if isinstance(cause.body, Unreadable):
        return Rejected(cause.body.reason)
    if named.state.run == BOARD_RUN:
        return Rejected(f"`{BOARD_RUN}` takes no input")
    if cause.seq <= named.cursor:
        if cause.seq > named.opened:
            return []
        earlier = decide(named.before, cause, view, rules)  # no run took it then, however far the run is now
        return earlier if isinstance(earlier, Rejected) else []
    return decide(named.state, cause, view, rules)
