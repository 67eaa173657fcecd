"""What a run's events say as spans, and that what supervisors tell while it goes on is exactly that."""

from typing import Any

import pytest

from blackboard import telemetry
from schemas import spans as s
from schemas.events import Event
from schemas.spans import Place, Span
from supervisor.policy import span_id
from supervisor.spans import RunSpans
from tests.supervisor.scenario import LOG, RUN, Due, Said, cancel, ended, failed, given, goal, offer, step, teach
from tests.supervisor.table import board_in_memory
from tests.supervisor.test_service_runs import GOAL, TEAM, staff
from tests.telemetry.receiver import CLIENT, Received, Receiver

USED = {"input_tokens": 5, "output_tokens": 2, "tool_calls": 1}


class Told:
    """A scenario and the spans that each input ended."""

    def __init__(self, *catalogue: Said) -> None:
        self.scenario, self.run, self.all = given(*catalogue), RunSpans(LOG, RUN), list[Span]()

    def when(self, said: Said | Due) -> list[Span]:
        found = [span for event in self.scenario.when(said).last for span in self.run.add(event)]
        self.all += found
        return found

    def tokens(self) -> tuple[int, int]:
        return (_sum(self.all, s.INPUT_TOKENS), _sum(self.all, s.OUTPUT_TOKENS))

    def booked(self) -> tuple[int, int]:
        usage = self.scenario.state.usage
        return usage.input_tokens, usage.output_tokens


def _sum(spans: list[Span], name: str) -> int:
    return sum(int(span.attributes.get(name, 0)) for span in spans)


def outcomes(spans: list[Span]) -> list[tuple[str, Any, Any]]:
    return [(span.name, span.attributes[s.OUTCOME], span.attributes.get(s.ERROR)) for span in spans]


def test_attempts_come_out_as_they_end_and_the_run_at_last() -> None:
    told = Told(offer("w", "work"), teach(step("a")))
    assert told.when(goal()) == []
    told.scenario.later(250)
    (first,) = told.when(failed("a", "TOOL_DOWN", usage=USED))
    assert (first.kind, first.place.span, first.parent) == ("client", span_id(RUN, "a", 1), s.run_span(RUN))
    assert first.end_ns - first.start_ns == 250_000_000
    assert {name: first.attributes[name] for name in (s.TASK, s.ATTEMPT, s.CONTRACT, s.OUTCOME, s.TOOL_CALLS)} == {
        s.TASK: "a",
        s.ATTEMPT: 1,
        s.CONTRACT: 1,
        s.OUTCOME: "TOOL_DOWN",
        s.TOOL_CALLS: 1,
    }
    assert outcomes(told.when(ended("a", {"a": 1}, attempt=2, usage=USED))) == [
        ("invoke_agent w", "DONE", None),
        ("invoke_workflow t", "DONE", None),
    ]
    assert [span.name for span in told.all if not span.parent] == ["invoke_workflow t"]
    assert told.tokens() == told.booked() == (10, 4)


def test_tokens_of_a_late_end_are_on_a_span_too() -> None:
    told = Told(offer("w", "work"), teach(step("a")))
    told.when(goal())
    told.when(Due("task.a"))
    (late,) = told.when(ended("a", {"a": 1}, attempt=1, usage=USED))
    assert outcomes([late]) == [("invoke_agent w", "LATE", None)]
    told.when(ended("a", {"a": 1}, attempt=2, usage=USED))
    assert told.scenario.state.end == "DONE"
    told.when(ended("a", {"a": 1}, attempt=3, execution="after", usage=USED))
    assert told.tokens() == told.booked() == (15, 6)


def test_end_of_the_run_ends_what_is_in_flight() -> None:
    told = Told(offer("w", "work"), teach(step("a"), step("b")))
    told.when(goal())
    assert outcomes(told.when(cancel())) == [
        ("invoke_agent w", "ABANDONED", None),
        ("invoke_agent w", "ABANDONED", None),
        ("invoke_workflow t", "CANCELLED", "CANCELLED"),
    ]
    assert told.when(cancel()) == []


@pytest.mark.parametrize(
    ("answer", "outcome", "end"), [("approve", "APPROVED", None), ("deny", "DENIED", "POLICY_BLOCKED")]
)
def test_gate_takes_as_long_as_the_person(answer: str, outcome: str, end: str | None) -> None:
    told = Told(offer("w", "work"), teach(step("a", gate={"ask": "go on?"})))
    told.when(goal())
    told.scenario.later(3_600_000)
    digest = told.scenario.state.gates["a"].digest
    gate, *rest = told.when(Said("signal", "ann", {"type": answer, "gate": "a", "digest": digest}))
    assert outcomes([gate]) == [("gate a", outcome, None)]
    assert (gate.end_ns - gate.start_ns, gate.attributes[s.AUTHOR]) == (3_600_000_000_000, "ann")
    assert gate.links == (Place(s.trace_id(LOG, RUN), s.sent_span(LOG, told.scenario.seq)),)
    assert [span.attributes[s.OUTCOME] for span in rest] == ([end] if end else [])


def test_ids_are_those_of_the_run_on_this_log_alone() -> None:
    assert s.trace_id("log-1", "r1") == s.trace_id("log-1", "r1")
    assert len({s.trace_id("log-1", "r1"), s.trace_id("log-2", "r1"), s.trace_id("log-1", "r2")}) == 3
    assert (len(s.trace_id("log-1", "r1")), len(s.run_span("r1"))) == (32, 16)


# --- live -------------------------------------------------------------------------------------------------------------


def folded(events: list[Event], run: str) -> dict[str, tuple[Any, ...]]:
    told = RunSpans(LOG, run)
    spans = [span for event in events for span in told.add(event)]
    return {one.place.span: (one.name, one.parent, one.start_ns, one.end_ns, one.attributes) for one in spans}


def arrived(spans: list[Received]) -> dict[str, tuple[Any, ...]]:
    """Without decisions and what clients sent, which only those know who took part."""
    kept = [one for one in spans if not one.name.startswith(("decide ", "send "))]
    return {one.id: (one.name, one.parent, one.start_ns, one.end_ns, one.attributes) for one in kept}


@pytest.mark.parametrize("supervisors", [1, 2])
async def test_told_live_is_what_the_log_says(supervisors: int, monkeypatch: pytest.MonkeyPatch) -> None:
    with Receiver() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        with telemetry.tracing("supervisor"):
            async with board_in_memory(*TEAM) as table:
                serving = [table.supervise(batch=batch) for batch in (500, 3)[:supervisors]]
                staff(table, repeat=supervisors)
                await table.client.publish("p", GOAL, "r1")
                await table.ended("r1")
                children = [task.child for task in (await table.run("r1")).state.tasks.values() if task.child]
                runs = ["r1", *children]
                events = {run: await table.events(run) for run in runs}
                usage = {run: (await table.run(run)).state.usage for run in runs}
                head = await table.log.head()

                async def have_read_back() -> bool:
                    return all(one.supervisor.position >= head for one in serving)

                await table.until(have_read_back)
                table.stop.set()
                await table.say(cancel(run="r1"))  # wakes them up
                await table.until(lambda: stopped(table.tasks[:supervisors]))
    for run in runs:
        spans = collector.of(s.trace_id(LOG, run))
        assert arrived(spans) == folded(events[run], run)
        assert sum(span.attributes.get(s.INPUT_TOKENS, 0) for span in spans) == usage[run].input_tokens
        causes = {event.cause.seq for event in events[run]}
        assert {span.attributes[s.CAUSE] for span in spans if s.CAUSE in span.attributes} >= causes
    trace = s.trace_id(LOG, "r1")
    asked = {span.id: span.links for span in collector.of(trace) if span.name == "invoke_workflow t"}
    assert sorted(link for links in asked.values() for link in links) == sorted(
        (s.trace_id(LOG, child), s.run_span(child)) for child in children
    )
    for child in children:
        (root,) = [span for span in collector.of(s.trace_id(LOG, child)) if not span.parent]
        assert [link for link in root.links if link[0] == trace] == [
            (trace, own) for own, links in asked.items() if links[0][0] == root.trace
        ]
    assert {span.kind for span in collector.spans if span.name.startswith("invoke_agent")} == {CLIENT}


async def stopped(tasks: list[Any]) -> bool:
    return all(task.done() for task in tasks)
