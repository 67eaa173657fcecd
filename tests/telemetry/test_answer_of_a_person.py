"""A gate in the trace: as long as the person took, linked with what the person sent."""

from pathlib import Path

from blackboard.board import Board
from schemas.spans import trace_id
from tests.end_to_end.support import Start, call, ended, offered, run_until
from tests.end_to_end.teams import write
from tests.telemetry.receiver import PRODUCER, Receiver

CAREFUL = """
from schemas.playbooks import Playbook, Step
from specialists.specialist import Team, specialist


@specialist("doer", offers="do", deadline_s=10)
async def doer(item: dict[str, str]) -> str:
    return "done"


STEP = {"id": "a", "capability": "do", "wait_s": 20, "gate": {"ask": "shall I?"}}
TEAM = Team(Playbook(team="careful", steps=[Step.model_validate(STEP)]), [doer])
"""


async def test_approval(collector: Receiver, shared: Board, there: list[str], start: Start, tmp_path: Path) -> None:
    programs = [start("supervise", *there), start("attach", write(tmp_path, "careful", CAREFUL), *there)]
    await offered(shared, "careful", "doer")
    assert (await call("publish", "careful", "--run", "r1", "--name", "me", *there)).code == 0
    await run_until(shared, "r1", lambda state: state.open_gates)
    approved = await call("approve", "r1", "--yes", "--name", "ann", *there)
    assert approved.code == 0, approved
    state = await ended(shared, "r1")
    assert state.end == "DONE"
    for program in programs:
        assert await program.stop() == 0, program.said
    spans = {span.id: span for span in collector.of(trace_id(shared.log.id, "r1"))}
    assert [span.name for span in spans.values() if span.parent and span.parent not in spans] == []
    (gate,) = [span for span in spans.values() if span.name == "gate a"]
    assert (gate.attributes["blackboard.outcome"], gate.attributes["blackboard.author"]) == ("APPROVED", "ann")
    (answer,) = [spans[own] for _, own in gate.links]
    assert (answer.kind, answer.name) == (PRODUCER, f"send bb.{shared.subjects.board}.signal.*.*")
    (decided,) = [span for span in spans.values() if span.name == "decide approve"]
    assert decided.links == gate.links
    assert len({span.process["process.pid"] for span in spans.values()}) == 4
