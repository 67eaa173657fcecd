"""What a specialist instruments itself, or its libraries do, becomes part of the run's trace."""

from pathlib import Path

import pytest

from blackboard.board import Board
from blackboard.client import Client
from schemas.spans import trace_id
from tests.end_to_end.support import Start, ended, offered
from tests.end_to_end.teams import write
from tests.telemetry.receiver import Receiver

CHATTY = '''
from opentelemetry import trace

from schemas.playbooks import Playbook, Step
from specialists.specialist import Context, Team, specialist


def ask(question: str) -> str:
    """In a thread of its own."""
    with trace.get_tracer("library").start_as_current_span("request"):
        return question.upper()


@specialist("chatty", offers="chat", deadline_s=10, tools=[ask])
async def chatty(item: dict[str, str], context: Context) -> str:
    with trace.get_tracer("library").start_as_current_span("chat model"):
        return await context.tool(ask, question="why")


TEAM = Team(Playbook(team="chat", steps=[Step(id="a", capability="chat", wait_s=20)]), [chatty])
'''


@pytest.mark.parametrize("sampler", ["", "always_off"])
async def test_spans_of_libraries_hang_below_ours(
    sampler: str,
    collector: Receiver,
    shared: Board,
    there: list[str],
    start: Start,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if sampler:
        monkeypatch.setenv("OTEL_TRACES_SAMPLER", sampler)
    programs = [start("supervise", *there), start("attach", write(tmp_path, "chatty", CHATTY), *there)]
    await offered(shared, "chat", "chatty")
    await Client(shared, "me").publish("chat", {}, "r1")
    assert (await ended(shared, "r1")).end == "DONE"
    for program in programs:
        assert await program.stop() == 0, program.said
    spans = {span.id: span for span in collector.of(trace_id(shared.log.id, "r1"))}
    above = {span.name: spans[span.parent].name for span in spans.values() if span.parent}
    if sampler:
        assert collector.spans == []
        return
    assert above["chat model"] == "invoke_agent chatty"
    assert above["request"] == "execute_tool ask"
