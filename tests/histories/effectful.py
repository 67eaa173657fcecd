"""A recording of effects: runs that pay, are told by people whether they paid, and undo it. The worker is the real one,
the till is that of the tests of effects."""

import asyncio

from schemas.goals import Budget
from schemas.playbooks import Gate, Playbook, Step
from specialists.specialist import Context, Specialist, specialist
from specialists.worker import Timing, Worker
from tests.effects.service import Service
from tests.effects.worlds import Asked, Paid, checker
from tests.histories.recording import Recording, topology


def payer(name: str, service: Service, *, probe: bool) -> Specialist:
    tools = service.tools(probe=probe, undo=True, settle_s=0.0)

    @specialist(name, offers=name, authority="effect", tools=tools, backoff_s=0.01)
    async def pay(item: Asked, context: Context) -> Paid:
        return Paid(**await context.tool("pay", amount=item.amount))

    return pay


def team(name: str, by: str, *more: Step) -> Playbook:
    pay = Step(id="pay", capability=by, input={"amount": "input.amount"}, gate=Gate())
    return Playbook(team=name, steps=[pay, *more], returns={"paid": "facts.pay"}, budget=Budget(tool_calls=9))


@topology
async def effects(table: Recording) -> None:
    sure, unsure = Service(answer_s=0.0), Service(answer_s=0.0, loses=1)
    staff = [payer("sure", sure, probe=True), payer("unsure", unsure, probe=False), checker]
    worker = Worker(table.board(), staff, timing=Timing(pull_s=0.1), drain_s=1)
    await worker.offer()
    check = Step(id="check", capability="check", needs=["pay"], input={"amount": "input.amount"})
    for playbook in (team("paid", "sure"), team("failed", "sure", check), team("unsure", "unsure")):
        await table.client.teach(playbook)
    table.tasks.append(asyncio.create_task(worker.run(table.stop)))
    for run in ("paid", "failed"):
        await table.client.publish(run, {"amount": 5}, run, approve=True)
    await table.ended("paid", "failed")
    for number, answers in enumerate(([True], [False], [None, None]), 1):
        run, unsure.loses = f"unknown-{number}", 1
        await table.client.publish("unsure", {"amount": number}, run, approve=True)
        for done in answers:
            await table.phase(run, "NEEDS_INPUT")
            state = (await table.run(run)).state
            gate = next(iter(state.open_gates))
            if done is None:
                await table.client.deny(run, gate, state.gates[gate].digest, "nobody knows")
            else:
                told = {"done": done, "result": {"booked": number}}
                await table.client.answer(run, gate, state.gates[gate].digest, told)
            await table.until(lambda run=run, gate=gate: _answered(table, run, gate))
        await table.ended(run)


async def _answered(table: Recording, run: str, gate: str) -> bool:
    return gate not in (await table.run(run)).state.open_gates
