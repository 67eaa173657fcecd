"""One execution of a task: all of its items, one after another, within its limit of work, and the end that follows.

It decides what the end says. Taking tasks, storing ends and the rest of a worker's day is `worker`.
"""

import asyncio
from typing import Any, Literal

from schemas.contracts import RETRIED
from schemas.events import Claim, Silence
from schemas.inputs import Ended
from schemas.tasks import Item
from schemas.usage import Usage
from specialists.context import WorkContext
from specialists.specialist import Result, Specialist
from specialists.stop import describe

Interruption = Literal["cancelled", "drained"]
ENDS_TASK = RETRIED | {"NEEDS_INPUT", "HANDED_OFF", "EFFECT_UNKNOWN"}
"""Codes of one item after which all of the task is done again, by the same specialist or by another."""


class Execution:
    """`run` it once; `interrupt` it from outside. `grace_s`: how long a coroutine that was cancelled may take to end;
    after that, and where a thread goes on, `settled` tells when it is over."""

    def __init__(self, specialist: Specialist, context: WorkContext, grace_s: float = 1.0) -> None:
        self.specialist, self.context, self.task = specialist, context, context.task
        self.interruption: Interruption | None = None
        self._grace_s = grace_s
        self._interrupted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._work: asyncio.Task[Ended] | None = None

    def interrupt(self, why: Interruption) -> None:
        """Stop it; the first reason stays, except that a cancel goes before anything else."""
        if self.interruption != "cancelled":
            self.interruption = why
        if not self._interrupted.done():
            self._interrupted.set_result(None)

    async def run(self) -> Ended | None:
        """The end, or None when it was interrupted: nobody then wants one, or another worker will write it."""
        work = self._work = asyncio.create_task(self._items())
        work.add_done_callback(lambda done: done.cancelled() or done.exception())  # it may be that nobody asks
        ends: list[asyncio.Future[Any]] = [work, self._interrupted]
        try:
            await asyncio.wait(ends, timeout=self.task.work_ms / 1000, return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                await self._stop(work)
                return None if self.interruption else self._timeout()
        finally:
            self.context.cancelled = self.context.cancelled or not work.done()
            work.cancel()
        if self.interruption == "cancelled":
            return None
        if work.cancelled():
            return self._end(Result(code="INTERNAL", message="CancelledError: nobody cancelled it but itself"))
        if failure := work.exception():  # no Exception, which is dealt with before: a library panicked
            self.context.log.error("the specialist raised %s", type(failure).__name__, exc_info=failure)
            return self._end(Result(code="INTERNAL", message=describe(failure)))
        return work.result()

    def used_in_vain(self) -> Ended | None:
        """What is left to be said of a cancelled execution that has used something, or has effects, of which the run
        wants to know that none is under way any more. It has no other use for it."""
        changes = any(tool.effect for tool in self.specialist.tools.values())
        if self.interruption != "cancelled" or (self.context.usage == Usage() and not changes):
            return None
        return self._end(Result(code="TIMEOUT", message="cancelled"))

    async def settled(self) -> None:
        """Return when nothing of it runs any more."""
        while rest := {one for one in (self._work, *self.context.threads) if one and not one.done()}:
            await asyncio.wait(rest)

    @property
    def lingers(self) -> bool:
        """Whether something of it goes on after its end."""
        return bool(self.context.threads) or (self._work is not None and not self._work.done())

    async def _stop(self, work: "asyncio.Task[Ended]") -> None:
        self.context.cancelled = True
        work.cancel()
        await asyncio.wait({work}, timeout=self._grace_s)

    async def _items(self) -> Ended:
        """The code of an only item ends the task, and so does any code of ENDS_TASK. Of several items, those that have
        no value for good are silent."""
        claims: list[Claim] = []
        silences: list[Silence] = []
        several = len(self.task.items) > 1
        for item in self.task.items:
            result = self.specialist.permitted(await self._item(item))
            if result.code and (result.code in ENDS_TASK or not several):
                return self._end(result, f"{item.key}: {result.message}" if several else result.message)
            if result.code:
                silences.append(Silence(item.key, result.code, result.message))
            else:
                claims.append(Claim(item.key, result.value, result.confidence, self.context.taint))
            await asyncio.sleep(0)  # a specialist that never waits must not stop the heartbeat
        return self._end(claims=tuple(claims), silences=tuple(silences))

    async def _item(self, item: Item) -> Result:
        """What became of one item. One during which the budget was exceeded has no value, also where the specialist
        caught the Stop that told it so; those after it are not begun."""
        if over := self.context.overspent():
            return Result(code="BUDGET_EXCEEDED", message=f"not begun: {over}")
        bids = self.task.kind == "bid"
        result = await self._outcome(item)
        if over := self.context.overspent():
            return Result(code="BUDGET_EXCEEDED", message=over)
        if bids and result.code in {"NEEDS_INPUT", "HANDED_OFF", "EFFECT_UNKNOWN"}:
            return Result(code="INTERNAL", message=f"{result.code} is no answer to a call for bids")
        if result.question and self.context.answer_to(result.question):
            message = f"asks what was answered already, take it from context.ask(): {result.message}"
            return Result(code="INTERNAL", message=message)
        return result

    async def _outcome(self, item: Item) -> Result:
        self.context.effects.begin(item.key)
        kinds = {"bid": self.specialist.bid_for, "undo": self.specialist.undo}
        result = await kinds.get(self.task.kind, self.specialist.invoke)(item.input, self.context)
        return self.context.effects.unsettled(result)

    def _timeout(self) -> Ended:
        return self._end(Result(code="TIMEOUT", message=f"not ended within {self.task.work_ms} ms of work"))

    def _end(
        self,
        result: Result | None = None,
        message: str = "",
        claims: tuple[Claim, ...] = (),
        silences: tuple[Silence, ...] = (),
    ) -> Ended:
        """With `result`, the code that it holds."""
        result = result or Result()
        self.context.reported = True
        return Ended(
            task=self.task.task,
            attempt=self.task.attempt,
            execution=self.context.execution,
            usage=self.context.usage,
            code=result.code,
            message=(message or result.message)[:1000],
            claims=claims,
            silences=silences,
            question=result.question,
            to=result.to,
        )
