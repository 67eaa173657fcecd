"""The way in: what people and programs append to a board. Nothing here decides; the log orders, the supervisor answers.

Every method checks what it is about to append as the supervisor will check it, so that a mistake is an error here and
not a rejection on the log.
"""

import asyncio
import contextlib
import re
import secrets
from collections.abc import Sequence
from typing import Any

from pydantic import ValidationError

from blackboard import telemetry
from blackboard.board import Board
from blackboard.log import Append, Conflict, LogError, Message, NotPermitted, Stored
from schemas import spans
from schemas.catalogue import Catalogue, View
from schemas.codec import (
    VALUE_LIMIT,
    NotAFactMessage,
    UnknownEvent,
    decode_event,
    encode,
    ends_run,
    facts_of,
    sha256,
    unstorable,
)
from schemas.contracts import Contract, read_contract
from schemas.events import CapabilityAwaited, Event, GateOpened, RunEnded, StepExpanded, StepSkipped
from schemas.goals import GOAL_LIMIT, Artefact, Budget, Goal, explain
from schemas.inputs import Answer, Approve, Cancel, Deny, Observation, Signal
from schemas.playbooks import Playbook, read_playbook
from schemas.subjects import BOARD_RUN, token
from schemas.validation import in_words

_NOT_TOKEN = re.compile(r"[^A-Za-z0-9_-]+")


class BadInput(ValueError):
    """What was asked for cannot be appended; the text says what to change."""


class RunExists(BadInput):
    """The run id is taken, by another goal or another client."""


class Client:
    """Appends as `author`, a token that stands in the subjects: a client, a person or a specialist."""

    def __init__(self, board: Board, author: str) -> None:
        self.board, self.author = board, token(author, "name")

    async def catalogue(self) -> View:
        """The contracts and playbooks of the board as they stand now."""
        catalogue, subjects = Catalogue(), self.board.subjects
        async for messages in self.board.log.scan([subjects.every("contract"), subjects.every("playbook")]):
            for message in messages:
                if address := subjects.address(message.subject):
                    catalogue.add(message.seq, address, message.data)
        return catalogue.below(2**63)

    async def waiting(self) -> dict[str, list[str]]:
        """The unfinished runs that wait for somebody who offers a capability, by capability."""
        log, subjects = self.board.log, self.board.subjects
        unfinished = [
            address.run
            async for message in log.last_per_subject(subjects.every("fact"))
            if (address := subjects.address(message.subject)) and not ends_run(message.data, log.id, address.run)
        ]
        waiting: dict[str, list[str]] = {}
        for run in unfinished:
            awaited: dict[str, str] = {}
            async for messages in log.scan([subjects.fact(run)]):
                for message in messages:
                    _follow_awaited(awaited, _events(message, log.id, run))
            for capability in sorted(set(awaited.values())):
                waiting.setdefault(capability, []).append(run)
        return waiting

    async def publish(
        self,
        team: str,
        input: dict[str, Any],
        run: str | None = None,
        approve: bool = False,
        *,
        budget: Budget | None = None,
        deadline_s: float | None = None,
    ) -> str:
        """Append a goal and return its run id, `team-` and ten random hex digits unless `run` is given. `approve`
        approves in advance what the run would ask for. `budget` and `deadline_s` hold for the whole run, where they are
        less than what the playbook says.

        The same goal under the same run id again is the same run. Raises BadInput where the team is not on the board or
        the goal is not valid, RunExists where the id has another goal.
        """
        run = token(run, "run id") if run else f"{token(team, 'team')[:50]}-{secrets.token_hex(5)}"
        if run == BOARD_RUN:
            raise BadInput(f"run id {BOARD_RUN!r} is the board's own; choose another")
        data = self._goal(team, input, approve, budget or Budget(), deadline_s)
        await asyncio.gather(self._check_goal(team, input), self._check_unused(run))
        subject = self.board.subjects.goal(self.author, run)
        if isinstance(await self._send(run, Append(subject, data, expected=0)), Conflict):
            there = await self.board.log.last(subject)
            if there is None or there.data != data:
                raise RunExists(f"run {run} has another goal already; leave the run id out, or choose another")
        return run

    def _goal(self, team: str, input: dict[str, Any], approve: bool, budget: Budget, deadline_s: float | None) -> bytes:
        if problem := unstorable(input):  # first: JSON would make something else of a number that is not finite
            raise BadInput(f"input: {problem}")
        try:
            goal = Goal(team=team, input=input, approve=approve, budget=budget, deadline_s=deadline_s)
            data = goal.model_dump_json(exclude_none=True).encode()
        except (ValidationError, ValueError) as error:
            raise BadInput(explain(error) if isinstance(error, ValidationError) else str(error)) from None
        if len(data) > GOAL_LIMIT:
            raise BadInput(f"the goal has {len(data)} bytes, the limit is {GOAL_LIMIT}; put large input into a blob")
        return data

    async def playbook(self, team: str) -> Playbook:
        """The playbook of a team as it stands now. Raises BadInput, with the teams that there are."""
        last = await self.board.log.last(self.board.subjects.playbook(token(team, "team")))
        playbook = read_playbook(last.data, team) if last else None
        if isinstance(playbook, Playbook):
            return playbook
        view = await self.catalogue()  # what cannot be read does not replace what stood before it
        if found := view.playbook(team):
            return found[1]
        known = ", ".join(other.team for other in view.teams()) or "none yet"
        raise BadInput(f"no team {team!r} on this board (teams: {known}); `blackboard up TEAM` brings one")

    async def _check_goal(self, team: str, input: dict[str, Any]) -> None:
        if problem := in_words((await self.playbook(team)).input, input):
            raise BadInput(f"the input of team {team!r}: {problem}; `blackboard schema {team}` shows what it takes")

    async def _check_unused(self, run: str) -> None:
        other = await self.board.log.last(self.board.subjects.goal("*", run))
        if other and self.board.subjects.parse(other.subject).author != self.author:
            raise RunExists(f"run {run} was published by another client; leave the run id out, or choose another")

    async def cancel(self, run: str, reason: str = "") -> int:
        """Append a cancel signal; the sequence."""
        return await self._signal(run, Cancel(reason=reason))

    async def approve(self, run: str, gate: str, digest: str) -> int:
        """Append the approval of the action with `digest`; the sequence."""
        return await self._signal(run, Approve(gate=gate, digest=digest))

    async def deny(self, run: str, gate: str, digest: str, reason: str = "") -> int:
        """Append the denial of the action with `digest`; the sequence."""
        return await self._signal(run, Deny(gate=gate, digest=digest, reason=reason))

    async def answer(self, run: str, gate: str, digest: str, value: Any) -> int:
        """Append the answer to the question with `digest`; the sequence. Raises BadInput for a value that is no JSON,
        too large, or breaks the schema of the question, and where an approval is asked for."""
        try:
            size, problem = len(encode(value)), unstorable(value)
        except (TypeError, ValueError, RecursionError) as error:
            raise BadInput(f"the answer cannot be JSON: {error}") from None
        if problem or size > VALUE_LIMIT:
            raise BadInput(f"the answer: {problem or f'{size} bytes, the limit is {VALUE_LIMIT}'}")
        if asked := await self._asked(run, gate, digest):
            if asked.schema is None:
                raise BadInput(f"gate {gate!r} asks for no value: approve or deny it")
            if broken := in_words(asked.schema, value):
                raise BadInput(f"the answer to {gate!r}: {broken}; its schema is {encode(asked.schema).decode()}")
        return await self._signal(run, Answer(gate=gate, digest=digest, value=value))

    async def _asked(self, run: str, gate: str, digest: str) -> GateOpened | None:
        """The gate that is meant, where the log has it and may be read."""
        found = None
        with contextlib.suppress(NotPermitted):
            async for messages in self.board.log.scan([self.board.subjects.fact(token(run, "run id"))]):
                events = [event for message in messages for event in _events(message, self.board.log.id, run)]
                opened = [event for event in events if isinstance(event, GateOpened) and event.gate == gate]
                found = next((event for event in opened if event.digest == digest), found)
        return found

    async def _signal(self, run: str, signal: Signal) -> int:
        subject = self.board.subjects.signal(self.author, token(run, "run id"))
        return _sequence(await self._send(run, Append(subject, encode(signal))))

    async def offer(self, contract: Contract) -> int:
        """Put a contract into the catalogue, unless it stands there as it is; its sequence. Raises BadInput, and
        NotPermitted where another stands there and this identity may not replace it."""
        problem = read_contract(data := _bytes(contract), contract.specialist)
        if isinstance(problem, str):
            raise BadInput(f"the contract of {contract.specialist!r}: {problem}")
        subject = self.board.subjects.contract(contract.specialist)
        try:
            return await self._put(subject, data)
        except NotPermitted as error:
            try:
                there = await self.board.log.last(subject)
            except NotPermitted:
                raise NotPermitted(f"{error}: the credentials are for another specialist, or another board") from error
            found = "on the board is not this one" if there else "is not on the board"
            raise NotPermitted(
                f"the contract of {contract.specialist} {found}, and {error}: "
                "let the operator put it there, with `blackboard offer`"
            ) from error

    async def withdraw(self, specialist: str) -> int:
        """Take a specialist out of the catalogue: new tasks go to others."""
        return await self.offer(Contract(specialist=token(specialist, "specialist"), offers=[]))

    async def teach(self, playbook: Playbook) -> int:
        """Put a playbook into the catalogue, unless it stands there as it is; its sequence."""
        problem = read_playbook(data := _bytes(playbook), playbook.team)
        if isinstance(problem, str):
            raise BadInput(f"the playbook of {playbook.team!r}: {problem}")
        return await self._put(self.board.subjects.playbook(playbook.team), data)

    async def observe(self, run: str, observation: Observation) -> int:
        """Append an observation as the specialist `author`; its sequence. It may be stored twice when the log's answer
        was lost; the supervisor counts an execution once."""
        append = Append(self.board.subjects.observation(self.author, run), encode(observation))
        return _sequence((await self.board.log.append(append))[0])

    async def _put(self, subject: str, data: bytes) -> int:
        """Append unless the last message on the subject has the same bytes."""
        while True:
            there = await self.board.log.last(subject)
            if there and sha256(there.data) == sha256(data):
                return there.seq
            stored = (await self.board.log.append(Append(subject, data, expected=there.seq if there else 0)))[0]
            if isinstance(stored, Stored):
                return stored.seq

    async def _send(self, run: str, append: Append) -> Stored | Conflict:
        """Append what a person or a program says to a run, which its trace shows."""
        lasting = telemetry.Lasting()
        outcome = (await self.board.log.append(append))[0]
        if telemetry.on() and isinstance(outcome, Stored):
            with contextlib.suppress(LogError):  # who may only append does not know the log's id, hence not the trace
                self._trace(run, append, outcome.seq, lasting)
        return outcome

    def _trace(self, run: str, append: Append, seq: int, lasting: telemetry.Lasting) -> None:
        log, began_ns, now_ns = self.board.log.id, lasting.began_ns, lasting.until_ns()
        place = spans.Place(spans.trace_id(log, run), spans.sent_span(log, seq))
        template = append.subject.replace(f".{self.author}.{run}", ".*.*")
        attributes: spans.Attributes = {
            spans.SYSTEM: "nats",
            spans.MESSAGING_OPERATION: "send",
            spans.MESSAGING_TYPE: "send",
            spans.DESTINATION: append.subject,
            spans.DESTINATION_TEMPLATE: template,
            spans.RUN: run,
            spans.AUTHOR: self.author,
        }
        name, root = f"send {template}", spans.run_span(run)
        telemetry.record(spans.Span(name, place, root, began_ns, now_ns, attributes, "producer"))


def _sequence(stored: Stored | Conflict) -> int:
    assert isinstance(stored, Stored), "an append without an expectation cannot conflict"
    return stored.seq


def _events(message: Message, log: str, run: str) -> list[Event]:
    """Those of a fact message of `run`; what is none, or cannot be read, says nothing."""
    try:
        return [decode_event(memoryview(raw)) for raw in facts_of(message.data, log, run).events]
    except (NotAFactMessage, UnknownEvent):
        return []


def _follow_awaited(awaited: dict[str, str], events: Sequence[Event]) -> None:
    """Keep `awaited`, capability by step, up with the events of one more fact message."""
    for event in events:
        match event:
            case CapabilityAwaited(step=step, capability=capability):
                awaited[step] = capability
            case StepExpanded(step=step) | StepSkipped(step=step):
                awaited.pop(step, None)
            case RunEnded():
                awaited.clear()


def _bytes(artefact: Artefact) -> bytes:
    return artefact.model_dump_json(exclude_none=True).encode()
