"""A conversation with a model within one execution: budgeted, tried again, checked, recorded.

    chat = Chat(context, model_of("reasoner"), system="You answer from the texts alone.")
    found = await chat.ask(question, output=Answer)

A call that could use more than the budget leaves is not made. Each call that is made is one `model_called` on the log,
which cites how the model was asked, what it was given and what it answered, as blobs. What goes wrong is a Stop.
"""

import asyncio
import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Literal, TypeVar, overload

from pydantic import ValidationError

from blackboard import telemetry
from schemas.codec import canonical, digest
from schemas.conversations import MEDIA_TYPE, Conversation, Message, Stored, stored, stored_message
from schemas.events import StopCode
from schemas.goals import explain
from schemas.inputs import ModelCalled
from schemas.usage import Usage
from specialists import llm
from specialists.answers import MODES, Mode, Offer, Wanted, parameters, refusal_of, value_of
from specialists.context import WorkContext
from specialists.llm import Completion, Counted, Failed, Request
from specialists.models import SCRIPT, BadModels, Model
from specialists.recording import recorded
from specialists.spans import chat_span, end_of_chat
from specialists.stop import Stop, bounded
from specialists.strict import Calls, Form

T = TypeVar("T")
FRAME_TOKENS, MESSAGE_TOKENS = 64, 16
"""What templates add to a conversation and to each of its messages, at most."""
LEAST_ANSWER = 16
"""Tokens without which an answer is not asked for."""
ROUNDS = 8
"""Answers in which a model may call tools."""
BACKOFF_S = (0.5, 20.0)
PROGRESS_S = 2.0
_taken: dict[tuple[str | None, str], Mode] = {}
"""The form that an endpoint was found to accept, for models whose `structured` is `auto`."""


class Chat:
    """One conversation. `context` is that of the execution, `model` what is configured. Raises Stop INVALID_INPUT where
    there is no model, so a specialist that can do without asks `model_of` first."""

    def __init__(self, context: WorkContext, model: Model | None, *, system: str = "") -> None:
        if model is None:
            raise Stop("INVALID_INPUT", "no model is configured: set BLACKBOARD_MODEL, or BLACKBOARD_MODELS to a file")
        self._context, self.model = context, model
        self._said = Conversation()
        self._unstored: list[Stored] = []
        self._kept: set[str] = set()
        self._known: tuple[int, int, dict[str, Any] | None] = (0, 0, None)
        """Tokens that the endpoint counted for the first so many bytes, with these parameters."""
        self._system = system

    @property
    def messages(self) -> tuple[Message, ...]:
        return tuple(self._said.messages)

    @overload
    async def ask(self, text: str) -> str: ...

    @overload
    async def ask(self, text: str, output: type[T]) -> T: ...

    @overload
    async def ask(self, text: str, output: Calls[T]) -> T: ...

    async def ask(self, text: str, output: Any = None) -> Any:
        """What the model answers to one more message: a text, a value of the type `output`, or what `output` makes of
        calls of functions, for models that can call them.

        An answer that does not fit is given back to the model with what is wrong, `model.repairs` times. Raises Stop:
        BUDGET_EXCEEDED before a call that the budget might not bear; TOOL_DOWN and TIMEOUT where the endpoint fails,
        after `model.attempts`; INVALID_OUTPUT; POLICY_BLOCKED where the endpoint or the model refuses; INVALID_INPUT
        for what the endpoint does not take.
        """
        wanted = output if output is None or isinstance(output, Calls) else Form(output)
        await self._begin(text)
        return await self._answered(wanted)

    @overload
    async def work(self, text: str, *, rounds: int = ROUNDS) -> str: ...

    @overload
    async def work(self, text: str, output: type[T], *, rounds: int = ROUNDS) -> T: ...

    async def work(self, text: str, output: Any = None, *, rounds: int = ROUNDS) -> Any:
        """As `ask`, but the model may first call the tools of the specialist, for `rounds` answers at most. The gateway
        makes the calls, as if the specialist had; why one is refused, or failed, is told to the model. Raises
        NeedsInput where a person has to approve a call."""
        await self._begin(text)
        for number in range(rounds + 1):
            answer = await self._answer(Offer(self._context.tools, open=number < rounds))
            self._say(answer.message)
            problem, code = refusal_of(answer)
            if problem:
                raise Stop(code, f"{self.model.name}: {problem}")
            calls = answer.message.get("tool_calls", [])
            if not calls:
                break
            if number == rounds:
                raise Stop("INVALID_OUTPUT", f"{self.model.name}: it calls tools after {rounds} rounds of them")
            for call in calls:
                function = call["function"]
                reply = await self._context.requested(function["name"], function["arguments"])
                said = {"role": "tool", "tool_call_id": call["id"], "content": reply.text}
                self._say(await self._screened(said))
        if output is None:
            return answer.message["content"]
        self._say({"role": "user", "content": "Now give the answer, in the form that is asked for."})
        return await self._answered(Form(output))

    async def _begin(self, text: str) -> None:
        if self._system:
            self._say(await self._screened({"role": "system", "content": self._system}))
            self._system = ""
        self._say(await self._screened({"role": "user", "content": text}))

    async def _answered(self, wanted: Form | Calls[Any] | None) -> Any:
        problem = ""
        code: StopCode = "INVALID_OUTPUT"
        for _ in range(self.model.repairs + 1):
            answer = await self._answer(wanted)
            self._say(answer.message)
            problem, code = refusal_of(answer)
            if not problem:
                try:
                    return answer.message["content"] if wanted is None else value_of(answer.message, wanted)
                except ValidationError as error:
                    problem = explain(error)
                except ValueError as error:
                    problem = bounded(str(error))
            self._repair(answer.message, problem)
        raise Stop(code, f"{self.model.name}: {problem}")

    def _repair(self, answer: Message, problem: str) -> None:
        text = f"That does not fit: {problem}. Answer again, in the form that was asked for, and with nothing else."
        calls = answer.get("tool_calls", [])
        for call in calls:  # an endpoint wants an answer to each
            self._say({"role": "tool", "tool_call_id": call["id"], "content": text})
        if not calls:
            self._say({"role": "user", "content": text})

    async def _screened(self, message: Message) -> Message:
        """As the worker's filter lets it go to a model, or come from one. Raises Stop POLICY_BLOCKED."""
        screen = self._context.screen
        return message if screen is None else {**message, **await screen.value(dict(message))}

    async def _screened_answer(self, outcome: Completion | Failed) -> Completion | Failed:
        if isinstance(outcome, Failed):
            return outcome
        try:
            return replace(outcome, message=await self._screened(outcome.message))
        except Stop as stop:  # it was made, and is booked and told of
            return Failed(stop.code, stop.message, counted=outcome.counted)

    def _say(self, message: Message) -> None:
        self._unstored.append(self._said.add(message))

    # --- one answer ---------------------------------------------------------------------------------------------------

    async def _answer(self, wanted: Wanted) -> Completion:
        """An answer, in the first form that the endpoint takes. Raises Stop."""
        modes = self._modes(wanted)
        while True:
            mode = modes.pop(0)
            outcome = await self._tried(parameters(self.model, wanted, mode))
            if isinstance(outcome, Completion):
                if mode:
                    _taken[(self.model.base_url, self.model.name)] = mode
                return outcome
            if not outcome.form or not modes:
                raise Stop(outcome.code, f"{self.model.name}: {outcome.message}")

    def _modes(self, wanted: Wanted) -> list[Mode | None]:
        if not isinstance(wanted, Form):
            return [None]
        if self.model.structured != "auto":
            return [self.model.structured]
        taken = _taken.get((self.model.base_url, self.model.name))
        return [taken] if taken else [*MODES]

    async def _tried(self, parameters: dict[str, Any]) -> Completion | Failed:
        """One answer, or the last of `model.attempts` failures."""
        ends_at = asyncio.get_running_loop().time() + self._context.task.work_ms / 1000
        pauses = self._pauses()
        for _ in range(self.model.attempts - 1):
            outcome = await self._once(parameters)
            if isinstance(outcome, Completion) or not outcome.transient:
                return outcome
            usual_s = next(pauses)
            pause_s = usual_s if outcome.retry_after_s is None else outcome.retry_after_s
            if asyncio.get_running_loop().time() + pause_s > ends_at:
                return outcome  # the task would end first: another attempt at it begins later
            await asyncio.sleep(pause_s)
        return await self._once(parameters)

    def _pauses(self) -> Iterator[float]:
        """Doubled each time, half of it drawn from the execution: many workers do not come back at the same moment."""
        pause_s, longest = BACKOFF_S
        share = int(digest([self._context.execution, self._said.head])[:8], 16) / 0xFFFFFFFF
        while True:
            yield pause_s * (1 + share) / 2
            pause_s = min(pause_s * 2, longest)

    async def _once(self, parameters: dict[str, Any]) -> Completion | Failed:
        """One call: what it may use is set aside, then it is stored how the model is asked, then it is asked; what it
        has used is booked, and all of it recorded. What nobody knows the price of stays set aside."""
        bound = self._bound(parameters)
        longest = self._longest_answer(bound)
        most = self.model.usage(bound, longest)
        ledger = self._context.ledger
        if refusal := ledger.hold(most):
            raise Stop("BUDGET_EXCEEDED", f"a call of {self.model.name} is not made: {refusal}")
        request = stored({"model": self.model.name, "parameters": parameters, "extra_body": self.model.extra_body})
        try:
            await self._store(request)
        except BaseException:
            ledger.release(most)
            raise
        called = _Call(self._context, self.model, request.sha256, self._said.head)
        try:
            outcome = await self._screened_answer(await called.made(self._request(parameters, longest)))
        except asyncio.CancelledError:
            called.interrupted()
            raise
        except BadModels as error:
            outcome = Failed("INVALID_INPUT", str(error), counted=llm.NOTHING)
        counted = outcome.counted
        if counted is not None:
            ledger.release(most)
        if isinstance(outcome, Completion) and counted is not None:
            seen = self._said.size + len(canonical(outcome.message))
            self._known = (counted.input_tokens + counted.output_tokens, seen, parameters)
        await called.told(outcome, await self._stored_answer(outcome))
        if counted is not None:
            usage = self.model.usage(counted.input_tokens, counted.output_tokens, counted.cached_tokens)
            self._context.use(
                input_tokens=usage.input_tokens, output_tokens=usage.output_tokens, micro_usd=usage.micro_usd
            )
        return outcome

    def _request(self, parameters: dict[str, Any], max_tokens: int) -> Request:
        messages = [*self._said.messages]
        sent = dict(parameters)
        if instruction := sent.pop("instruction", ""):
            messages.append({"role": "user", "content": instruction})
        return Request(messages, sent | {"model": self.model.name}, max_tokens)

    async def _store(self, request: Stored) -> None:
        """The blobs that the call cites. Raises Stop TOOL_DOWN."""
        for one in (*self._unstored, request):
            await self._keep(one)
        self._unstored.clear()

    async def _keep(self, one: Stored) -> None:
        """Each blob once: how a model is asked stays the same, and its answer is the next message."""
        if one.sha256 not in self._kept:
            await self._context.store(one.data, MEDIA_TYPE)
            self._kept.add(one.sha256)

    async def _stored_answer(self, outcome: Completion | Failed) -> str:
        """The digest of the answer, as the conversation goes on with it; empty where there is none or the store is
        away: the call was made all the same."""
        if isinstance(outcome, Failed):
            return ""
        answer = stored_message(outcome.message, self._said.head)
        try:
            await self._keep(answer)
        except Stop as stop:
            self._context.log.warning("the answer of a model is not recorded: %s", stop)
            return ""
        return answer.sha256

    # --- budgets ------------------------------------------------------------------------------------------------------

    def _bound(self, parameters: dict[str, Any]) -> int:
        """Tokens that the input has at most: those that the endpoint counted for what it has seen, and for the rest one
        for each so many bytes."""
        tokens, size, seen = self._known
        rest = self._said.size - size + (0 if seen == parameters else len(canonical(parameters)))
        frame = FRAME_TOKENS + MESSAGE_TOKENS * (len(self._said.messages) + 1)
        return tokens + frame + math.ceil(rest / self.model.bytes_per_token)

    def _longest_answer(self, bound: int) -> int:
        """Tokens that the answer may have, within the model's limit and what the budget leaves. At least LEAST_ANSWER:
        where that is too much, the call is refused."""
        left, longest = self._context.budget, self.model.max_tokens
        if left.tokens is not None:
            longest = min(longest, left.tokens - bound)
        if left.micro_usd is not None and self.model.usd_per_million_output:
            rest = left.micro_usd - self.model.micro_usd(bound, 0) - 1
            longest = min(longest, math.floor(rest / self.model.usd_per_million_output))
        return max(longest, min(LEAST_ANSWER, self.model.max_tokens))


class _Call:
    """One call on its way: its span, and what the log will say of it."""

    def __init__(self, context: WorkContext, model: Model, request: str, messages: str) -> None:
        self._context, self._model = context, model
        self._request, self._messages = request, messages
        self._began = asyncio.get_running_loop().time()
        self._progress: set[asyncio.Task[None]] = set()
        self._told_s = self._began

    async def made(self, request: Request) -> Completion | Failed:
        if self._model.stream:
            request.on_text = self._tell_length
        number = self._context.models_called + 1
        with telemetry.measured(
            lambda: chat_span(self._context.task, self._context.execution, self._model.name, number),
            self._context.spans.append,
        ) as said:
            outcome = await self._outcome(request, number)
            used = outcome.counted or llm.NOTHING
            code = outcome.code if isinstance(outcome, Failed) else ""
            said.update(end_of_chat(used.input_tokens, used.output_tokens, code))
        return outcome

    async def _outcome(self, request: Request, number: int) -> Completion | Failed:
        """Of the script, of the recording, or of the endpoint."""
        if script := SCRIPT.get():
            answer: Completion | Failed = script.answer(
                self._context.task, number, request.messages, request.parameters
            )
            return answer
        known = recorded(self._context.task.run, self._request, self._messages)
        return await llm.complete(self._model, request) if known is None else known

    async def told(self, outcome: Completion | Failed, answer: str) -> None:
        if isinstance(outcome, Failed):
            called = self._as_observation(outcome.code, outcome.message, outcome.counted)
        else:
            called = self._as_observation("", "", outcome.counted, answer, outcome.finish)
        await self._context.model_called(called)

    def interrupted(self) -> None:
        """There is no time to append it: it goes along with the end."""
        self._context.model_interrupted(self._as_observation("TIMEOUT", "interrupted before it answered", None))

    def _as_observation(
        self,
        code: StopCode | Literal[""],
        message: str,
        counted: Counted | None,
        answer: str = "",
        finish: str = "",
    ) -> ModelCalled:
        task = self._context.task
        used = counted or llm.NOTHING
        return ModelCalled(
            task=task.task,
            attempt=task.attempt,
            execution=self._context.execution,
            model=bounded(self._model.name[:128]),
            request=self._request,
            messages=self._messages,
            answer=answer,
            finish=bounded(finish[:64]),
            usage=self._model.usage(used.input_tokens, used.output_tokens, used.cached_tokens) if counted else Usage(),
            cached_tokens=used.cached_tokens,
            reasoning_tokens=used.reasoning_tokens,
            uncounted=counted is None,
            code=code,
            message=message,
            duration_ms=round((asyncio.get_running_loop().time() - self._began) * 1000),
        )

    def _tell_length(self, characters: int) -> None:
        now = asyncio.get_running_loop().time()
        if now - self._told_s < PROGRESS_S:
            return
        self._told_s = now
        telling = asyncio.ensure_future(
            self._context.progress(f"{self._model.name}: {characters} characters of the answer")
        )
        self._progress.add(telling)
        telling.add_done_callback(self._progress.discard)
