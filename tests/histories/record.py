"""Records histories of real runs, one file a topology: `python -m tests.histories.record [NAME...]`.

Over the log in memory, with a supervisor and workers as they are, and a clock that counts messages. A file that exists
is left as it is: what was recorded once is what later releases must still decide the same, so a file is made anew only
together with a new version of the rules. Timers are short, and the time between messages is not that of the world, so
a recording is a history that could have been, not a measurement.
"""

import asyncio
import sys
import tempfile
from pathlib import Path
from typing import Any

from blackboard.client import Client
from schemas.inputs import Approve, Deny, Started
from schemas.tasks import Item, Task
from specialists.licences.team import PLAYBOOK, SPECIALISTS
from specialists.worker import Timing, Worker
from tests.end_to_end.environments import make_environment
from tests.histories import coordinated, effectful
from tests.histories.recording import SOON_S, TOPOLOGIES, Recording, topology, value_of
from tests.supervisor.scenario import Said, cancel, ended, goal, offer, step, teach
from tests.supervisor.table import Stop

__all__ = ["TOPOLOGIES", "coordinated", "effectful", "path_of"]

HERE = Path(__file__).parent

# --- the team that is shipped -----------------------------------------------------------------------------------------


@topology
async def licences(table: Recording) -> None:
    with tempfile.TemporaryDirectory(prefix="licences-") as folder:
        await audits(table, make_environment(Path(folder) / "environment", 6), Path(folder))


async def audits(table: Recording, environment: Path, folder: Path) -> None:
    worker = Worker(table.board(), SPECIALISTS, timing=Timing(pull_s=0.1), drain_s=1)
    await worker.offer()
    await table.client.teach(PLAYBOOK)
    table.tasks.append(asyncio.create_task(worker.run(table.stop)))
    path = {"path": str(environment)}
    await table.client.publish("licences", path, "audit")
    await table.client.publish("licences", path | {"allow": ["MIT"], "deny": ["Apache-2.0"]}, "listed")
    await table.client.publish("licences", path | {"out": str(folder / "a")}, "written", approve=True)
    await table.ended("audit", "listed", "written")
    (folder / "a" / "licences.md").write_text("somebody else's")
    for run, answer in {"approved": Approve, "denied": Deny, "exists": Approve}.items():
        out = folder / ("a" if run == "exists" else run)
        await table.client.publish("licences", path | {"out": str(out)}, run)
        await table.phase(run, "NEEDS_INPUT")
        digest = (await table.run(run)).state.gates["write"].digest
        await (table.client.approve if answer is Approve else table.client.deny)(run, "write", digest)
    await table.client.publish("licences", {"path": str(folder / "nothing")}, "nowhere")
    await table.ended("approved", "denied", "exists", "nowhere")


# --- each topology ----------------------------------------------------------------------------------------------------


@topology
async def dependent_steps(table: Recording) -> None:
    await table.say(
        offer("w", "work"),
        teach(
            step("a", input={"x": "input.x"}),
            step("b", needs=["a"], input={"x": "facts.a"}),
            step("c", needs=["a"], when="input.more", input={"x": "facts.a.of"}),
            step("d", needs=["b", "c"], input={"x": "[facts.b.by, facts.c.by]"}, reads=["a", "b"]),
            input={"required": ["x"]},
            returns={"d": "facts.d"},
            result={"required": ["d"]},
        ),
    )
    table.work("w", value_of)
    for number, more in enumerate([True, False, False, True]):
        await table.client.publish("t", {"x": number, "more": more}, f"steps-{number}")
    await table.say(goal({"y": 1}, run="refused"), goal({"x": 1}, team="nobody", run="refused-2"))
    await table.say(goal({"x": 2}, run="steps-0", by="bob"), Said("goal", "bob", b"{", "garbage"))
    await table.say(Said("obs", "w", {"type": "ended"}, "steps-1"), Said("signal", "bob", {"type": "maybe"}, "steps-1"))
    await table.ended(*(f"steps-{number}" for number in range(4)))


@topology
async def fan_out(table: Recording) -> None:
    await table.say(
        offer("w", "work"),
        offer("s", "sum"),
        teach(
            step("each", for_each="input.n", fact="v.k{index}", input={"x": "item"}, tasks=8, missing="allow"),
            step("total", "sum", needs=["each"], input={"x": "values(facts.v)"}),
            returns={"total": "facts.total"},
            parallel=5,
        ),
    )

    def square(task: Task, item: Item) -> Any:
        if item.input["x"] == 13:
            raise Stop("LOW_CONFIDENCE")
        return item.input["x"] ** 2

    table.work("w", square)
    table.work("s", lambda task, item: sum(item.input["x"] or []))
    for number, size in enumerate([0, 1, 7, 8, 9, 30]):
        await table.client.publish("t", {"n": list(range(size))}, f"fan-{number}")
    await table.client.publish("t", {"n": "no list"}, "no-list")
    await table.ended(*(f"fan-{number}" for number in range(6)), "no-list")


@topology
async def child_runs(table: Recording) -> None:
    await table.say(
        offer("w", "work"),
        teach(step("a", input={"x": "input.x"}, attempts=1), returns={"a": "facts.a"}, team="leaf"),
        teach(
            step("parts", team="leaf", for_each="input.xs", fact="p.k{index}", input={"x": "item"}),
            returns={"parts": "facts.p"},
            team="branch",
        ),
        teach(
            step("inner", team="branch", input={"xs": "input.xs"}, missing="allow", attempts=1),
            step("own", input={"x": "input.own"}),
            returns={"inner": "facts.inner", "own": "facts.own"},
            team="root",
        ),
        teach(step("again", team="endless"), team="endless"),
    )

    def work(task: Task, item: Item) -> Any:
        if item.input["x"] in {"bad", "down"}:
            raise Stop("LOW_CONFIDENCE" if item.input["x"] == "bad" else "TOOL_DOWN")
        return item.input["x"]

    table.work("w", work)
    await table.client.publish("branch", {"xs": [1, 2, 3]}, "branch")
    await table.client.publish("root", {"xs": ["a", "b"], "own": 1}, "root")
    await table.client.publish("root", {"xs": ["a", "bad"], "own": 1}, "root-missing")
    await table.client.publish("root", {"xs": [], "own": "bad"}, "root-fails")
    await table.client.publish("branch", {"xs": ["down"]}, "branch-down")
    await table.client.publish("endless", {}, "endless")
    await table.ended("branch", "root", "root-missing", "root-fails", "branch-down", "endless")


@topology
async def priorities(table: Recording) -> None:
    order = ["u", "by == 'v' && value.sure", "confidence > `0.5`"]
    each: dict[str, Any] = {"specialist": "all", "for_each": "input.keys", "input": {"x": "item"}, "missing": "allow"}
    await table.say(
        *(offer(name, "work") for name in ("u", "v", "w")),
        teach(
            step("p", fact="p.{item}", merge={"policy": "priority", "order": order}, silent=["LOW_CONFIDENCE"], **each),
            step("o", fact="o.{item}", needs=["p"], accept="value.of != 'odd' || by == 'u'", **each),
            returns={"p": "facts.p", "o": "facts.o"},
        ),
    )

    def claim(task: Task, item: Item) -> Any:
        key = item.input["x"]
        if key == "silent" and task.specialist != "w":
            raise Stop("LOW_CONFIDENCE")
        if key == "broken" and task.specialist == "v":
            raise Stop("INVALID_INPUT")
        if key == "same":
            return {"of": "same"}
        return {"of": key, "sure": key == "sure", "by": task.specialist}

    for name in ("u", "v", "w"):
        table.work(name, claim)
    sets = [["same"], ["a", "sure"], ["silent"], ["broken", "same"], ["odd"], ["same", "a", "odd", "silent"]]
    for number, keys in enumerate(sets):
        await table.client.publish("t", {"keys": keys}, f"claims-{number}")
    await table.ended(*(f"claims-{number}" for number in range(len(sets))))


@topology
async def retries(table: Recording) -> None:
    await table.say(
        *(offer(name, "work", attempts=3, output={"type": "string"}) for name in ("u", "w")),
        offer("s", "slow", deadline_s=SOON_S),
        offer("x", "never", deadline_s=SOON_S),
        offer("y", "never", deadline_s=SOON_S),
        teach(
            step("a", specialist="w", input={"x": "input.x"}), step("b", specialist="w", missing="allow", needs=["a"])
        ),
        teach(step("a", "slow", wait_s=SOON_S, attempts=2), team="slow"),
        teach(step("a", "never", wait_s=SOON_S), team="never"),
    )

    def work(task: Task, item: Item) -> Any:
        match item.input.get("x"):
            case "once" if task.attempt == 1:
                raise Stop("TOOL_DOWN")
            case "schema" if task.attempt < 3:
                return task.attempt
            case "down" | "odd" | "blocked" as x:
                raise Stop({"down": "TOOL_DOWN", "odd": "INTERNAL", "blocked": "POLICY_BLOCKED"}[x])
            case None:
                raise Stop("LOW_CONFIDENCE")
        return "fine"

    table.work("w", work)
    names = ["fine", "once", "schema", "down", "odd", "blocked"]
    for name in names:
        await table.client.publish("t", {"x": name}, name)
    for team in ("slow", "never"):
        await table.client.publish(team, {}, team)
    await table.in_flight("slow", "a")
    begun = Started(task="a", attempt=1, execution="e1")
    await table.say(Said("obs", "s", begun, "slow"), Said("obs", "s", begun, "slow"))
    await table.ended(*names, "slow", "never")
    await table.say(ended("a", {"a": 1}, by="s", run="slow"), ended("a", {"a": "x"}, by="u", run="fine"))


@topology
async def gates(table: Recording) -> None:
    ask = {"gate": {"ask": "go on?", "expires_s": 3600}, "input": {"x": "facts.a"}, "needs": ["a"]}
    await table.say(
        offer("w", "work"),
        teach(step("a", input={"x": "input.x"}), step("b", **ask), returns={"b": "facts.b"}),
        teach(step("b", gate={"expires_s": SOON_S}), team="soon"),
        teach(step("inner", team="t", input={"x": "input.x"}), team="outer"),
        teach(step("b", gate={}, input={"x": "input.x"}), team="large"),
    )
    table.work("w", value_of)
    runs = ["approved", "denied", "wrong", "twice", "cancelled"]
    for run in runs:
        await table.client.publish("t", {"x": run}, run)
    await table.client.publish("t", {"x": 1}, "in-advance", approve=True)
    await table.client.publish("outer", {"x": 1}, "outer", approve=True)
    await table.client.publish("soon", {}, "expired")
    await table.client.publish("large", {"x": "x" * 70_000}, "large")
    for run in runs:
        await table.phase(run, "NEEDS_INPUT")
    digests = {run: (await table.run(run)).state.gates["b"].digest for run in runs}
    bob = Client(table.board(), "bob")
    await table.client.approve("approved", "b", digests["approved"])
    await bob.deny("denied", "b", digests["denied"], "not today")
    await bob.approve("wrong", "b", digests["approved"])
    await bob.approve("wrong", "nothing", digests["wrong"])
    await bob.approve("wrong", "b", digests["wrong"])
    await bob.approve("twice", "b", digests["twice"])
    await table.client.deny("twice", "b", digests["twice"])
    await table.say(cancel(run="cancelled"))
    (child,) = [task.child for task in (await table.run("outer")).state.tasks.values()]
    await table.phase(child, "NEEDS_INPUT")
    await bob.approve(child, "b", (await table.run(child)).state.gates["b"].digest)
    await table.ended(*runs, "in-advance", "outer", "expired", "large")
    await bob.approve("denied", "b", digests["denied"])


@topology
async def awaited(table: Recording) -> None:
    await table.say(
        teach(step("a", "rare")),
        teach(step("a", "rare", specialist="w"), team="named"),
        teach(step("a", "unheard", await_s=SOON_S), team="never"),
        teach(step("a", team="later"), team="child"),
        offer("u", "rare"),
        offer("u"),
    )
    table.work("w", value_of)
    for team in ("t", "named", "never", "child"):
        await table.client.publish(team, {}, team)
    await table.ended("never")
    await table.say(offer("v", "rare"), offer("w", "rare", "work"), offer("v"), teach(step("b"), team="later"))
    await table.say(Said("contract", "odd", {"specialist": "odd"}), Said("wake", "", {"type": "capability_came"}, "t"))
    await table.ended("named", "child")
    await table.client.cancel("t", "v took it and left")
    await table.ended("t")


@topology
async def cancels(table: Recording) -> None:
    await table.say(
        offer("w", "work"),
        offer("q", "quiet"),
        teach(step("a", "quiet"), step("b")),
        teach(step("c", team="t"), team="p"),
    )
    table.work("w", value_of)
    for number in range(3):
        await table.client.publish("t", {}, f"cancel-{number}")
        await table.in_flight(f"cancel-{number}", "a")
        await table.client.cancel(f"cancel-{number}", "" if number else "no more")
    await table.ended(*(f"cancel-{number}" for number in range(3)))
    late = ended("a", {"a": 1}, by="q", run="cancel-0", usage={"input_tokens": 7})
    await table.say(late, late, cancel(run="cancel-0"), cancel(run="nothing"))
    await table.say(*(ended("a", by="eve", execution=f"e{number}", run="cancel-1") for number in range(102)))
    await table.client.publish("p", {}, "parent")
    await table.in_flight("parent", "c")
    child = (await table.run("parent")).state.tasks["c"].child
    await table.in_flight(child, "a")
    await table.client.cancel("parent")
    await table.ended("parent", child)
    await table.client.publish("t", {}, "finished")
    await table.in_flight("finished", "a")
    await table.say(ended("a", {"a": 1}, by="q", run="finished"))
    await table.ended("finished")
    await table.client.cancel("finished")


async def record(name: str, path: Path) -> None:
    table = Recording(name)
    try:
        await TOPOLOGIES[name](table)
        await table.decided()
        table.look_for_failures()
        await table.write(path)
    finally:
        table.stop.set()
        for task in table.tasks:
            task.cancel()
        await asyncio.gather(*table.tasks, return_exceptions=True)


def path_of(name: str) -> Path:
    return HERE / f"{name}.jsonl"


def main(names: list[str]) -> None:
    for name in names or [name for name in TOPOLOGIES if not path_of(name).exists()]:
        asyncio.run(record(name, path_of(name)))
        print(f"{path_of(name).name}  {path_of(name).stat().st_size} bytes")


if __name__ == "__main__":
    main(sys.argv[1:])
