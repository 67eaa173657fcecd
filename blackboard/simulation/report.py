"""What a simulation reports: the runs, who was called, which tools were used, and what one wants to be sure of."""

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from blackboard.log import Message
from blackboard.simulation.faults import Fault
from blackboard.simulation.invariants import Histories
from blackboard.simulation.parts import Call, Happened, History, Parts, ToolUse
from schemas import events as e
from schemas.inputs import Ended
from schemas.subjects import BOARD_RUN
from schemas.usage import Usage


@dataclass(frozen=True)
class RunReport:
    """One run. `end`, `code` and `reason` say how it ended ("" while it goes on), `result` is its result, `facts` are
    the values by key. `outcome`, `state` and `head` are the digests of docs/protocol.md. `calls` are the executions
    that began, `tools` the uses of tools. `usage` is what is booked.

    The methods raise AssertionError with what was found instead, and return the run, so they can be chained.
    """

    seed: int
    run: str
    team: str
    end: str
    code: str
    reason: str
    result: Mapping[str, Any] | None
    facts: Mapping[str, Any]
    usage: Usage
    events: Sequence[e.Event]
    outcome: str
    state: str
    head: str
    calls: Sequence[Call]
    tools: Sequence[ToolUse]
    reported: Mapping[str, Usage]
    """What the ends of executions say that they used, by specialist, counted or not."""

    def ended_as(self, end: str, code: str | None = None) -> "RunReport":
        """The run ended so, and with that code where one is given."""
        wanted = f"{end} {code or ''}".strip()
        as_wanted = self.end == end and code in (None, self.code)
        _require(as_wanted, f"{self._named} ended {self._ending}, not {wanted}")
        return self

    @property
    def _named(self) -> str:
        return f"seed {self.seed}: run {self.run}"

    @property
    def _ending(self) -> str:
        return f"{self.end or 'nowhere'} {self.code}".strip() + (f" ({self.reason})" if self.reason else "")

    def differs_from(self, other: "RunReport") -> str:
        """What is another outcome here than in `other`; empty where the outcomes are equal."""
        if self.outcome == other.outcome:
            return ""
        if (self.end, self.code) != (other.end, other.code):
            return f"{self._named} ended {self._ending}, under seed {other.seed} {other._ending}"
        for key in sorted({*self.facts, *other.facts}):
            mine, theirs = (repr(one.facts.get(key, "nothing"))[:200] for one in (self, other))
            if mine != theirs:
                return f"{self._named} has {key} = {mine}, under seed {other.seed} {theirs}"
        return f"{self._named} has the facts of seed {other.seed}, with other losers, keys that are missing, or result"

    def routed_to(self, *specialists: str) -> "RunReport":
        """Each of `specialists` was given a task of this run."""
        given = self._given()
        for name in specialists:
            _require(name in given, f"{self._named} gave no task to {name}; it gave {_counted(given)}")
        return self

    def not_routed_to(self, *specialists: str) -> "RunReport":
        """None of `specialists` was given a task of this run."""
        given = self._given()
        for name in specialists:
            _require(name not in given, f"{self._named} gave {given[name]} tasks to {name}")
        return self

    def _given(self) -> Counter[str]:
        return Counter(event.specialist for event in self.events if isinstance(event, e.TaskDispatched))

    def called(self, tool: str, by: str | None = None) -> "RunReport":
        """The tool was called in this run."""
        called = _counted(self._tools())
        _require(bool(self._uses(tool, by)), f"{self._named} never called {tool}; it called {called}")
        return self

    def never_called(self, tool: str, by: str | None = None) -> "RunReport":
        """The tool was not called in this run. A call that was refused, as it is none of the specialist's, is none."""
        uses = self._uses(tool, by)
        who = Counter(use.specialist for use in uses)
        _require(not uses, f"{self._named} called {tool} {len(uses)} times: {_counted(who)}")
        return self

    def _uses(self, tool: str, by: str | None) -> list[ToolUse]:
        return [use for use in self.tools if use.tool == tool and not use.refused and by in (None, use.specialist)]

    def _tools(self) -> Counter[str]:
        return Counter(use.tool for use in self.tools if not use.refused)

    def within_budget(
        self, *, tokens: int | None = None, tool_calls: int | None = None, executions: int | None = None
    ) -> "RunReport":
        """All executions of this run together, those that came to nothing too, used at most so much."""
        used = sum(self.reported.values(), Usage())
        spent = {name: usage.input_tokens + usage.output_tokens for name, usage in self.reported.items()}
        sums = {
            "tokens": (used.input_tokens + used.output_tokens, tokens, Counter(spent)),
            "tool calls": (used.tool_calls, tool_calls, self._tools()),
            "executions": (len(self.calls), executions, Counter(call.specialist for call in self.calls)),
        }
        for what, (count, limit, shares) in sums.items():
            within = limit is None or count <= limit
            _require(within, f"{self._named} used {count} {what}, over {limit}: {_counted(shares)}")
        return self


@dataclass(frozen=True)
class Report:
    """One simulation. `digest` is SHA-256 over every byte of the log: messages, times, headers. `duration_s` is
    virtual. `faults` are those that happened, in order."""

    seed: int
    digest: str
    runs: Mapping[str, RunReport]
    messages: Sequence[Message]
    calls: Sequence[Call]
    tools: Sequence[ToolUse]
    faults: Sequence[Fault]
    duration_s: float
    steps: int
    processes: int

    def run(self, run: str | None = None) -> RunReport:
        """The run with that id; without one, the only one that nobody asked for within another run."""
        if run is None:
            mine = [one for one in self.runs.values() if _opened(one) is None]
            _require(len(mine) == 1, f"there are several runs, name one: {', '.join(self.runs)}")
            return mine[0]
        _require(run in self.runs, f"there is no run {run}; there are {', '.join(self.runs)}")
        return self.runs[run]

    @property
    def outcomes(self) -> dict[str, str]:
        """The outcome digest of each run that was published."""
        return {name: one.outcome for name, one in self.runs.items() if _opened(one) is None}


def make_report(seed: int, happened: Happened, runs: Histories, faults: Sequence[Fault], parts: Parts) -> Report:
    reports = {
        run: _run_report(seed, run, history, happened, parts)
        for run, history in runs.items()
        if run != BOARD_RUN and history.events
    }
    return Report(
        seed=seed,
        digest=log_digest(happened.messages),
        runs=reports,
        messages=happened.messages,
        calls=happened.calls,
        tools=happened.tools,
        faults=tuple(faults),
        duration_s=happened.duration_s,
        steps=happened.steps,
        processes=happened.processes,
    )


def _run_report(seed: int, run: str, history: History, happened: Happened, parts: Parts) -> RunReport:
    state = history.folded.state
    return RunReport(
        seed=seed,
        run=run,
        team=state.team,
        end=state.end,
        code=state.code,
        reason=state.reason,
        result=state.result,
        facts={key: fact.value for key, fact in state.facts.items()},
        usage=state.usage,
        events=history.events,
        outcome=parts.outcome_digest(state),
        state=parts.state_digest(state),
        head=history.folded.h,
        calls=[call for call in happened.calls if call.run == run],
        tools=[use for use in happened.tools if use.run == run],
        reported=_reported(history),
    )


def _reported(history: History) -> dict[str, Usage]:
    """Each execution once."""
    seen: set[tuple[str, str, str]] = set()
    found: dict[str, Usage] = {}
    for author, body in history.inputs.values():
        if isinstance(body, Ended) and (name := (author, body.task, body.execution)) not in seen:
            seen.add(name)
            found[author] = found.get(author, Usage()) + body.usage
    return found


def log_digest(messages: Sequence[Message]) -> str:
    """SHA-256 over all messages, with their times and headers."""
    digest = hashlib.sha256()
    for one in messages:
        envelope = [one.seq, one.subject, one.time_ms, len(one.data), one.headers]
        digest.update(json.dumps(envelope, sort_keys=True).encode())
        digest.update(one.data)
    return digest.hexdigest()


def _opened(run: RunReport) -> e.Parent | None:
    return next((event.parent for event in run.events if isinstance(event, e.RunOpened)), None)


def _require(truth: bool, message: str) -> None:
    """An assertion whose message pytest leaves as it is."""
    if not truth:
        raise AssertionError(message)


def _counted(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items())) or "nothing"
