"""Deciding again: from the inputs of a log to the runs that they make, without anything that was decided before.

Pure. What comes out has the same `head` and the same state as what the log holds, whoever wrote it, in whichever
batches; where it does not, other rules decided the run, or somebody changed it.
"""

from collections.abc import Mapping, Sequence

from blackboard.log import Message
from projections.evolve import evolve
from projections.history import Folded, unwritten
from schemas import events as e
from schemas.catalogue import Catalogue
from schemas.codec import chain_next, encode
from schemas.inputs import Input
from schemas.subjects import BOARD_RUN, Subjects
from supervisor.answer import answer, read_message
from supervisor.merge import Policy


def redecide(
    log_id: str,
    messages: Sequence[Message],
    batch: int = 500,
    board: str = "main",
    policies: Mapping[tuple[str, int], Policy] | None = None,
) -> dict[str, Folded]:
    """The runs, `_board` among them, that the inputs among `messages`, in their order, bring about. Facts are passed
    over. `batch` messages are read before the first of them is decided, as a supervisor reads them. Raises NewerRules,
    PolicyMissing.
    """
    subjects, catalogue = Subjects(board), Catalogue(policies)
    runs: dict[str, Folded] = {}
    for start in range(0, len(messages), batch):
        read = [read_message(message, subjects, catalogue) for message in messages[start : start + batch]]
        for cause in filter(None, read):
            named, reserved = (runs.get(run) or unwritten(log_id, run) for run in (cause.address.run, BOARD_RUN))
            folded, events = answer(named, reserved, cause, catalogue.below(cause.seq))
            if events:
                runs[folded.state.run] = taken_further(folded, cause, events, [encode(event) for event in events])
    return runs


def taken_further(folded: Folded, cause: Input, events: Sequence[e.Event], stored: Sequence[bytes]) -> Folded:
    """The run with the events of one more input, `stored` as these bytes."""
    state, h = folded.state, folded.h
    for event, data in zip(events, stored, strict=True):
        state, h = evolve(state, event), chain_next(h, data)
    return Folded(state, h, cause.seq, folded.seq, folded.opened or cause.seq)
