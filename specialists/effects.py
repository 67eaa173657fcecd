"""Effects: tools that change the world, called as intent -> effect -> receipt, so that each is done once.

The right to do one is an observation that the log takes from one execution only (`record` says whether it did). Who
does not have it, because an execution before has claimed it and was lost, finds out whether it was done: from what the
task knows, from what people said, or from the probe of the tool. Where none of them can say, people are asked. So an
execution may be cut off at any moment; what cannot be promised stands in docs/effects.md.
"""

import asyncio
import inspect
import itertools
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, Protocol

import msgspec
from pydantic_core import to_jsonable_python

from blackboard.queue import ACK_WAIT_S
from schemas.codec import encode, unstorable
from schemas.contracts import RETRIED
from schemas.effects import ANSWER, ARGUMENTS_LIMIT, ROUNDS_LIMIT, effect_key, question_about
from schemas.events_of_effects import Source
from schemas.inputs import EffectIntended, EffectReceipt, Observation, Question
from schemas.tasks import Answered, Receipt, Task, Undo
from specialists.outcome import Result
from specialists.stop import EffectUnknown, NotDone, Stop, bounded, describe, exact
from specialists.tools import KEY, Done, Tool

CLAIM_S = ACK_WAIT_S
"""Between asking for the right to do an effect and doing it. Who takes longer may have been given up in between."""
NOT_BEGUN = "not begun"


class Host(Protocol):
    """What an execution has to offer here."""

    task: Task
    execution: str
    cancelled: bool
    unrecorded: list[Observation]
    threads: set[asyncio.Future[Any]]

    def answer_to(self, question: Question) -> Answered | None: ...

    record: Callable[[Observation | EffectIntended], Awaitable[bool]]
    """Appends; whether the log took it, which it does not only where another has the right to an effect."""

    async def in_thread(self, function: Callable[..., Any], /, *arguments: Any, **keywords: Any) -> Any: ...


class _Call:
    """One effect: the tool, its arguments as they are and as JSON, and the key."""

    def __init__(self, tool: Tool, arguments: dict[str, Any], shown: Any, key: str) -> None:
        self.tool, self.arguments, self.shown, self.key = tool, arguments, shown, key


class Effects:
    """The effects of one execution; `run` calls the function of a tool."""

    def __init__(self, host: Host, run: Callable[[Tool, dict[str, Any]], Awaitable[Any]]) -> None:
        self._host, self._run = host, run
        self._item = ""
        self._taken: dict[str, set[int]] = {}
        self._open: dict[str, tuple[_Call, int]] = {}
        """Those that were begun here and of which it is not known what came of them."""
        self._done = {one.key: one for one in host.task.effects if one.done}
        self._begun: dict[str, int] = {}
        """The last round of each effect of which it is known that nothing was done."""
        for one in host.task.effects:
            if not one.done:
                self._begun[one.key] = max(one.round, self._begun.get(one.key, 0))

    def begin(self, item: str) -> None:
        """The calls that follow are for this item."""
        self._item, self._taken = item, {}

    def unsettled(self, result: Result) -> Result:
        """`result` itself, unless it hides that nobody knows what came of an effect: the execution then ends with that,
        whatever its specialist has made of it. What a probe can tell is asked in another attempt."""
        if not self._open or result.code == "EFFECT_UNKNOWN":
            return result
        call, round_ = next(iter(self._open.values()))
        if call.tool.probe is None:
            question = self._question(call, round_).question
            return Result(code="EFFECT_UNKNOWN", message=bounded(question.ask), question=question)
        if result.code in RETRIED:
            return result
        return Result(code="TIMEOUT", message=f"{call.tool.name} was cut off, and it is not known whether it was done")

    async def perform(self, tool: Tool, arguments: dict[str, Any]) -> Any:
        """The result of the effect, which is done now unless it was. Raises what the tool raises where it is known that
        nothing was done, EffectUnknown where nothing is known, Stop INVALID_INPUT for arguments that are no exact JSON.

        Equal calls during one item are told apart by their number. One that came to nothing gives its number back: so a
        call that is made again is the same effect, also where another execution has to make it once only.
        """
        shown = _shown(tool, arguments)
        taken = self._taken.setdefault(encode([tool.name, shown]).decode(), set())
        number = next(number for number in itertools.count(1) if number not in taken)
        taken.add(number)
        task = self._host.task
        key = effect_key(task.log, task.run, task.task, self._item, tool.name, shown, number)
        try:
            return await self._done_once(_Call(tool, arguments, shown, key))
        except BaseException:
            taken.discard(number)
            raise

    async def _done_once(self, call: _Call) -> Any:
        if known := self._done.get(call.key):
            return known.result
        if call.key in self._open:  # it was cut off here, and the specialist asks for it again
            known = await self._find_out(call, self._open[call.key][1])
            if known.done:
                return known.result
        for round_ in range(1 + self._begun.get(call.key, 0), ROUNDS_LIMIT + 1):
            found = await self._said(call, round_)
            if found is None:
                if await self._claim(call, round_):
                    return await self._do(call, round_)
                found = await self._find_out(call, round_)
            if found.done:
                return found.result
        raise Stop("INTERNAL", f"{call.tool.name} was begun {ROUNDS_LIMIT} times, which is the most")

    async def undo(self, asked: Undo, tools: Mapping[str, Tool], call: Callable[..., Any]) -> dict[str, Any]:
        """Undo an effect of an earlier execution, if it was done; `call` calls the tool that undoes it."""
        tool = tools.get(asked.tool)
        if tool is None or tool.undo is None:
            raise Stop("INTERNAL", f"{asked.tool} cannot be undone by this release of the specialist")
        effect = _Call(tool, asked.arguments, asked.arguments, asked.key)
        found = self._done.get(asked.key)
        if found is None and self._begun.get(asked.key, 0) < asked.round:  # nobody knows
            found = await self._said(effect, asked.round) or await self._find_out(effect, asked.round)
        if found is None or not found.done:
            return {"undone": False, "reason": "it was not done"}
        given = {**asked.arguments, "result": found.result, "undoes": asked.key}
        result = await call(tool.undo, tool.undo.arguments({name: given[name] for name in tool.undo.takes}))
        return {"undone": True, "tool": tool.undo.name, "result": as_json(result)}

    # --- the right to do it -------------------------------------------------------------------------------------------

    async def _claim(self, call: _Call, round_: int) -> bool:
        """Whether this execution, and no other, does the effect in this round. Raises Stop where it is too late for
        it."""
        if self._host.cancelled:
            raise Stop("TIMEOUT", f"{call.tool.name} was not begun: the task has no purpose any more")
        loop = asyncio.get_running_loop()
        asked_at, task = loop.time(), self._host.task
        intent = EffectIntended(
            task=task.task,
            attempt=task.attempt,
            execution=self._host.execution,
            tool=call.tool.name,
            key=call.key,
            round=round_,
            arguments=call.shown,
        )
        in_doubt = self._receipt(call, round_, done=False, message=NOT_BEGUN)
        with suppress(ValueError):  # it was cut off here before, and is asked for once more
            self._host.unrecorded.remove(in_doubt)
        try:
            mine = await self._host.record(intent)
        except asyncio.CancelledError:  # the log may have taken it, and nothing was done
            self._host.unrecorded.append(in_doubt)
            raise
        took_s = loop.time() - asked_at
        if mine and (self._host.cancelled or took_s > CLAIM_S):
            message = f"{NOT_BEGUN}: it took {took_s:.1f} s to be given the right to it"
            await self._tell(self._receipt(call, round_, done=False, message=message))
            raise Stop("TIMEOUT", f"{call.tool.name} was {message}")
        return mine

    # --- doing it -----------------------------------------------------------------------------------------------------

    async def _do(self, call: _Call, round_: int) -> Any:
        keyed = {KEY: call.key} if call.tool.keyed else {}
        self._open[call.key] = call, round_
        try:
            result = as_json(await self._run(call.tool, {**call.arguments, **keyed}))
        except NotDone as error:
            await self._tell(self._receipt(call, round_, done=False, message=error.message))
            raise
        except Exception as error:
            found = await self._find_out(call, round_, describe(error))
            if found.done:
                return found.result
            raise
        await self._tell(self._receipt(call, round_, done=True, result=result))
        return result

    # --- finding out whether it was done ------------------------------------------------------------------------------

    async def _said(self, call: _Call, round_: int) -> Receipt | None:
        """What people, or a receipt that came in the meantime, answered to the question about this round."""
        answered = self._host.answer_to(self._question(call, round_).question)
        if answered is None or not isinstance(answered.value, dict):
            return None
        done, result = answered.value.get("done") is True, answered.value.get("result")
        await self._tell(self._receipt(call, round_, done=done, source="person", result=result))
        return Receipt(call.key, round_, done, result)

    async def _find_out(self, call: _Call, round_: int, message: str = "") -> Receipt:
        """What came of a round that was begun, as the tool reads it back. Raises EffectUnknown."""
        while call.key in self._open and self._host.threads:  # what was cut off here may go on
            await asyncio.wait(self._host.threads)
        found = await self._probe(call)
        if not isinstance(found, Done) and call.tool.probe:  # it may be under way still
            await asyncio.sleep(call.tool.settle_s)
            found = await self._probe(call)
        if found is None:
            self._open[call.key] = call, round_
            raise self._question(call, round_)
        done, result = (True, as_json(found.result)) if isinstance(found, Done) else (False, None)
        await self._tell(self._receipt(call, round_, done=done, source="probe", result=result, message=message))
        return Receipt(call.key, round_, done, result)

    async def _probe(self, call: _Call) -> Done | bool | None:
        """What the tool reads back; None where it cannot say."""
        if call.tool.probe is None:
            return None
        found = None
        with suppress(Exception):
            if inspect.iscoroutinefunction(call.tool.probe):
                found = await call.tool.probe(call.key, call.shown)
            else:
                found = await self._host.in_thread(call.tool.probe, call.key, call.shown)
        return found if isinstance(found, Done) or found is False else None

    def _question(self, call: _Call, round_: int) -> EffectUnknown:
        ask, action = question_about(call.tool.name, call.key, round_, call.shown)
        return EffectUnknown(ask, ANSWER, action=action)

    # --- receipts -----------------------------------------------------------------------------------------------------

    def _receipt(
        self, call: _Call, round_: int, *, done: bool, source: Source = "call", result: Any = None, message: str = ""
    ) -> EffectReceipt:
        return EffectReceipt(
            task=self._host.task.task,
            attempt=self._host.task.attempt,
            execution=self._host.execution,
            tool=call.tool.name,
            key=call.key,
            round=round_,
            done=done,
            source=source,
            result=result,
            message=message[:1000],
        )

    async def _tell(self, receipt: EffectReceipt) -> None:
        """Record it; what was interrupted goes onto the log with the end."""
        self._open.pop(receipt.key, None)
        if receipt.done:
            self._done[receipt.key] = Receipt(receipt.key, receipt.round, True, receipt.result)
        else:
            self._begun[receipt.key] = receipt.round
        try:
            await self._host.record(receipt)
        except BaseException:
            self._host.unrecorded.append(receipt)
            raise


def _shown(tool: Tool, arguments: dict[str, Any]) -> Any:
    """The arguments of an effect as JSON. Raises Stop."""
    try:
        shown = exact(arguments)
    except ValueError as error:
        raise Stop("INVALID_INPUT", f"what {tool.name} is called with {error}") from None
    if (size := len(encode(shown))) > ARGUMENTS_LIMIT:
        message = f"the arguments of {tool.name} have {size} bytes, over {ARGUMENTS_LIMIT}: name a blob in them"
        raise Stop("INVALID_INPUT", message)
    return shown


def as_json(value: Any) -> Any:
    """What an effect gave, as JSON: the same whether it was done now or before. What is no JSON is shown as text; what
    is too large for a receipt is cut to its size."""
    try:
        plain = to_jsonable_python(value, bytes_mode="base64", fallback=repr, serialize_unknown=True)
    except Exception as error:  # what is raised while a foreign object is turned into JSON can be anything
        return {"unstorable": describe(error)}
    if problem := unstorable(plain):
        return {"unstorable": problem}
    data = encode(plain)
    return {"too_large": len(data)} if len(data) > ARGUMENTS_LIMIT else msgspec.json.decode(data)
