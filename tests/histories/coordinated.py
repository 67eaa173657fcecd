"""Recordings of how runs coordinate: budgets, breakers, loops, questions, claims that differ, facts that change, plans
that are revised or proposed, open calls, critiques, hand-offs. What specialists and people say is scripted, one after
the other; supervisor, log and timers are as they are."""

from collections.abc import Callable
from typing import Any

from projections.canonical import State
from tests.coordination.asking import answer, approve, deny, needs_input, tool_called
from tests.histories.recording import SOON_S, Recording, topology
from tests.planning.proposing import proposed, says
from tests.supervisor.scenario import Said, cancel, ended, failed, goal, offer, started, step, teach

Line = Said | Callable[[State], Said]


async def play(table: Recording, run: str, *lines: Line) -> None:
    """Say one after the other, each when what came before it is decided."""
    for line in lines:
        said = line((await table.run(run)).state) if callable(line) else line
        (seq,) = await table.say(said._replace(run=run))
        await table.supervising.reached(seq)


def agree(gate: str, value: Any = None, by: str = "ann") -> Callable[[State], Said]:
    """What an open gate asks for."""

    def said(state: State) -> Said:
        cited = state.gates[gate].digest
        return approve(cited, gate, by) if value is None else answer(cited, gate, value, by)

    return said


def refuse(gate: str) -> Callable[[State], Said]:
    return lambda state: deny(state.gates[gate].digest, gate, reason="not today")


def bid(task: str, by: str, **said: Any) -> Said:
    return ended(task, {"a_bids": {"can": True} | said}, by=by)


OFFERS = (offer("w", "work", attempts=2), offer("v", "other", attempts=1), offer("u", "work", attempts=2))


@topology
async def budgets(table: Recording) -> None:
    each = step("a", for_each="input.n", fact="a.k{index}", tasks=4, missing="allow")
    await table.say(
        offer("w", "work", budget={"micro_usd": 40, "tokens": 1_000}),
        teach(each, budget={"micro_usd": 100}, parallel=2, returns={"a": "facts.a"}),
        teach(step("c", attempts=1, wait_s=SOON_S, deadline_s=SOON_S), team="inner"),
        teach(
            step("b", team="inner", budget={"micro_usd": 60}, attempts=1, missing="allow"),
            budget={"micro_usd": 100},
            team="p",
        ),
    )

    def used(index: int, micro_usd: int) -> Said:
        return ended(f"a-{index}", {f"a.k{index}": index}, usage={"micro_usd": micro_usd, "input_tokens": index})

    for run in ("within", "exhausted", "overrun", "late"):
        await play(table, run, goal({"n": [0, 1, 2, 3]}))
    await play(table, "within", *(used(index, 20) for index in range(4)))
    await play(table, "exhausted", *(used(index, 40) for index in range(2)))
    await play(table, "overrun", used(0, 90), used(1, 10))
    await play(table, "late", used(0, 10), cancel(), used(1, 5))
    await play(table, "shared", goal({}, team="p"))
    await table.ended("within", "exhausted", "overrun", "late", "shared")
    child = next(run for run in await table.runs() if run.startswith("shared-"))
    await play(table, child, ended("c", {"c": 1}, usage={"micro_usd": 7}))


@topology
async def breakers(table: Recording) -> None:
    own = {"fallback": ["v"], "backoff_s": SOON_S / 5}
    steps = [step("a", **own), step("b", needs=["a"], **own)]
    await table.say(offer("w", "work", attempts=2), offer("v", "other"))
    await table.say(teach(*steps, breaker=2, returns={"a": "facts.a"}))
    await table.say(teach(step("a"), step("b"), breaker=2, team="alone"))
    await play(table, "opens", goal(), failed("a", "TOOL_DOWN", message="no route"))
    await table.attempt("opens", "a", 2)
    await play(table, "opens", failed("a", "INTERNAL", 2), ended("a", {"a": 1}, 3, "v"), ended("b", {"b": 1}, 1, "v"))
    await play(table, "ends", goal({}, team="alone"), failed("a", "TOOL_DOWN"), failed("b", "TOOL_DOWN"))
    await table.ended("opens", "ends")


@topology
async def loops(table: Recording) -> None:
    hands = step("a", hand_to=["ping", "pong"], handoffs=20)
    await table.say(
        offer("ping", "work", authority="propose"),
        offer("pong", "other", authority="propose"),
        teach(hands, repeats=1),
        teach(hands, repeats=1, on_loop="ask", team="asks"),
    )

    def to(name: str, attempt: int) -> Said:
        by = "ping" if name == "pong" else "pong"
        return failed("a", "HANDED_OFF", attempt, by, to=name, usage={"input_tokens": 1})

    turns = [to("pong", 1), to("ping", 2), to("pong", 3)]
    await play(table, "stopped", goal(), *turns)
    await play(table, "in-vain", goal(), *(tool_called("a", call, by="ping") for call in (1, 1, 2)))
    for run, last in {"goes-on": agree("run.loop.1"), "ends": refuse("run.loop.1")}.items():
        await play(table, run, goal({}, team="asks"), *turns, last)
    await play(table, "goes-on", ended("a", {"a": 1}, 4, "pong"))
    await table.ended("stopped", "in-vain", "goes-on", "ends")


@topology
async def questions(table: Recording) -> None:
    number = {"type": "integer"}
    asks = {"id": "q", "question": {"ask": "how many?", "answer": number, "who": ["ann"]}, "input": {"x": "input.x"}}
    soon = {"id": "q", "question": {"ask": "how many?", "expires_s": SOON_S}, "missing": "allow"}
    await table.say(
        offer("w", "work"),
        teach(asks, step("a", needs=["q"], input={"n": "facts.q"}), returns={"a": "facts.a"}),
        teach(soon, step("a"), team="soon", returns={"a": "facts.a"}),
        teach(step("a", missing="allow"), team="task", returns={"a": "facts.a"}),
    )
    wrong = [agree("q"), agree("q", "three"), agree("q", 3, by="bob"), agree("q", 3), agree("q", 4)]
    await play(table, "answered", goal({"x": 1}), *wrong, ended("a", {"a": 1}))
    await play(table, "refused", goal({"x": 2}), refuse("q"))
    await play(table, "expired", goal({}, team="soon"), ended("a", {"a": 1}))
    how_many, may_it = {"ask": "how many?", "schema": number}, {"ask": "may w call rm?", "action": {"tool": "rm"}}
    both = [needs_input("a", how_many), agree("a.1", 3), needs_input("a", may_it, 2), agree("a.2", 1), agree("a.2")]
    await play(table, "in-the-middle", goal({}, team="task"), *both, ended("a", {"a": 1}, 3))
    await play(table, "not-confirmed", goal({}, team="task"), needs_input("a", may_it), refuse("a.1"))
    await play(
        table, "in-advance", goal({}, team="task", approve=True), needs_input("a", may_it), ended("a", {"a": 1}, 2)
    )
    await table.ended("answered", "refused", "expired", "in-the-middle", "not-confirmed", "in-advance")


@topology
async def claims_that_differ(table: Recording) -> None:
    def team(policy: dict[str, Any], name: str, **fields: Any) -> Said:
        return teach(step("b", specialist="all", merge=policy, **fields), team=name, returns={"b": "facts.b"})

    await table.say(
        offer("u", "work"),
        offer("w", "work"),
        offer("judge", "judging", attempts=2),
        team({"policy": "reconcile", "specialist": "judge"}, "judged", missing="allow"),
        team({"policy": "reject"}, "rejected", missing="allow"),
        team({"policy": "first"}, "first"),
        team({"policy": "reconcile", "specialist": "nobody"}, "unjudged", missing="allow"),
    )

    def claims(one: Any, other: Any) -> list[Said]:
        return [ended("b-0", {"b": one}, by="u"), ended("b-1", {"b": other})]

    await play(table, "agree", goal({}, team="judged"), *claims(1, 1))
    judged = [failed("b-2", "TOOL_DOWN", 1, "judge"), ended("b-2", {"b": 2}, 2, "judge")]
    await play(table, "reconciled", goal({}, team="judged"), *claims(1, 2), *judged)
    await play(table, "undecided", goal({}, team="judged"), *claims(1, 2), failed("b-2", "LOW_CONFIDENCE", 1, "judge"))
    await play(table, "rejected", goal({}, team="rejected"), *claims(1, 2))
    await play(table, "unjudged", goal({}, team="unjudged"), *claims(1, 2))
    await play(table, "first", goal({}, team="first"), *reversed(claims(1, 2)))
    await table.ended("agree", "reconciled", "undecided", "rejected", "unjudged", "first")


@topology
async def facts_that_change(table: Recording) -> None:
    def team(name: str, **fields: Any) -> Said:
        steps = (
            step("a"),
            step("b", needs=["a"], reads=["a"], input={"x": "facts.a"}, **fields),
            step("r", "other", needs=["a"], fact="a", replaces=True),
        )
        return teach(*steps, team=name, returns={"a": "facts.a", "b": "facts.b"})

    await table.say(offer("w", "work"), offer("v", "other"))
    await table.say(*(team(name, stale=name) for name in ("commit", "mark", "again")), team("gate", gate={}))
    newer = [ended("a", {"a": 10}), ended("r", {"a": 9_999}, by="v")]
    for name in ("commit", "mark"):
        await play(table, name, goal({}, team=name), *newer, ended("b", {"b": 1}))
    await play(table, "again", goal({}, team="again"), *newer, ended("b", {"b": 1}), ended("b", {"b": 2}, 2))
    await play(table, "gate", goal({}, team="gate"), newer[0])
    earlier = (await table.run("gate")).state.gates["b"].digest
    await play(table, "gate", newer[1], approve(earlier, "b"), agree("b"), ended("b", {"b": 1}))
    await table.ended("commit", "mark", "again", "gate")


@topology
async def revisions(table: Recording) -> None:
    replans = [{"step": "b", "steps": [step("c", "other", missing="allow")]}]
    await table.say(
        *OFFERS,
        offer("eve", "watching", wakes_on=["a"]),
        teach(step("a"), step("b"), step("d", needs=["b"]), replans=replans, returns={"d": "facts.d"}),
        teach(step("a"), wakes=True, team="woken", returns={"woken": "facts.woken"}),
    )
    begin = [goal(), ended("a", {"a": 1}, by="u"), failed("b", "LOW_CONFIDENCE", by="u")]
    await play(table, "delivered", *begin, ended("c", {"c": 1}, by="v"), ended("d", {"d": 1}, by="u"))
    await play(table, "degraded", *begin, failed("c", "LOW_CONFIDENCE", by="v"), ended("d", {"d": 1}, by="u"))
    woken = ended("woken_1", {"woken.eve.1": 1}, by="eve")
    await play(table, "woken", goal({}, team="woken"), ended("a", {"a": 1}, by="u"), woken)
    await table.ended("delivered", "degraded", "woken")


@topology
async def plans(table: Recording) -> None:
    plan = step("plan", "plan", plans={"authority": "effect", "gate": {"who": ["ann"]}}, input={"goal": "input.x"})
    after = step("end", "other", needs=["plan"], input={"parts": "facts.plan_facts"})
    replans = [{"step": "plan", "steps": [step("plain", "other")]}]
    own = {"tokens": 300}
    await table.say(
        offer("planner", "plan", budget={"tokens": 100}),
        offer("w", "work", budget={"tokens": 50}),
        offer("v", "other", budget={"tokens": 50}),
        offer("payer", "pay", authority="effect", budget={"tokens": 50}),
        teach(plan, after, budget=own, returns={"end": "facts.end"}),
        teach(plan | {"plans": {"proposals": 1}}, after, replans=replans, team="else", returns={"end": "facts.end"}),
    )
    two = [proposed("a", input={"t": ("text", "one")}), proposed("b", input={"of": ("step", "a")}, missing="allow")]
    paid = [proposed("a", "pay", gate="pay 5?")]

    def claims(of: list[dict[str, Any]], attempt: int = 1) -> Said:
        return says(of, attempt, "planner")

    a, b = ended("plan_a", {"plan_facts.a": 1}), ended("plan_b", {"plan_facts.b": 2})
    end = ended("end", {"end": "so"}, by="v")
    await play(table, "at-once", goal({"x": 1}), claims(two), a, b, end)
    await play(table, "in-part", goal({"x": 2}), claims(two), a, failed("plan_b", "LOW_CONFIDENCE"), end)
    again = [claims([proposed("a", "play")]), claims([], 2), claims(two, 3)]
    await play(table, "third", goal({"x": 3}), *again, a, b, end)
    await play(table, "refused", goal({"x": 4}), *again[:2], claims([proposed("c")] * 2, 3))
    many = [proposed(f"s{number}") for number in range(7)]
    await play(table, "too-dear", goal({"x": 5}), claims(many), claims(two, 2), failed("plan_a", "INVALID_INPUT"))
    asked = [claims(paid), agree("plan_a"), ended("plan_a", {"plan_facts.a": 5}, by="payer"), end]
    await play(table, "asked", goal({"x": 6}), *asked)
    await play(table, "denied", goal({"x": 7}), claims(paid), refuse("plan_a"))
    instead = [claims([]), ended("plain", {"plain": 1}, by="v"), end]
    await play(table, "else", goal({"x": 8}, team="else"), *instead)
    await table.ended("at-once", "in-part", "third", "refused", "too-dear", "asked", "denied", "else")


@topology
async def open_calls(table: Recording) -> None:
    call = {"bids_s": SOON_S * 4}
    await table.say(*OFFERS, offer("x", "work"), teach(step("a", call=call, missing="allow"), returns={"a": "facts.a"}))
    sure = bid("a_bids-1", "w", confidence=0.9)
    await play(table, "granted", goal(), bid("a_bids-0", "u", confidence=0.2), sure, bid("a_bids-2", "x", can=False))
    await play(table, "granted", failed("a", "LOW_CONFIDENCE"), ended("a", {"a": 1}, 2, "u"))
    await play(table, "silent", goal(), sure)
    await table.in_flight("silent", "a")
    await play(table, "silent", ended("a", {"a": 1}))
    await play(table, "nobody", goal(), *(bid(f"a_bids-{n}", by, can=False) for n, by in enumerate("uwx")))
    await table.ended("granted", "silent", "nobody")


@topology
async def critiques(table: Recording) -> None:
    critique = {"capability": "other", "accept": "critique.good", "rounds": 2}
    await table.say(offer("w", "work"), offer("v", "other"))
    await table.say(teach(step("a", critique=critique, missing="allow"), returns={"a": "facts.a"}))

    def turn(number: int, good: bool) -> list[Said]:
        review = f"a_review_{number}"
        return [ended(f"a_{number}", {f"a_{number}": number}), ended(review, {review: {"good": good}}, by="v")]

    await play(table, "first", goal(), *turn(1, good=True))
    await play(table, "second", goal(), *turn(1, good=False), *turn(2, good=True))
    await play(table, "never", goal(), *turn(1, good=False), *turn(2, good=False))
    await table.ended("first", "second", "never")


@topology
async def hand_offs(table: Recording) -> None:
    await table.say(
        offer("w", "work", authority="propose"),
        offer("v", "other"),
        offer("o", "looking"),
        teach(step("a", hand_to=["other"], missing="allow"), returns={"a": "facts.a"}),
        teach(step("a", "looking", hand_to=["other"], missing="allow"), team="looks", returns={"a": "facts.a"}),
    )
    await play(table, "handed", goal(), failed("a", "HANDED_OFF", to="other"), started("a", 2, "v"))
    await play(table, "handed", ended("a", {"a": 1}, 2, "v"))
    await play(table, "elsewhere", goal(), failed("a", "HANDED_OFF", to="nowhere"))
    await play(table, "without-authority", goal({}, team="looks"), failed("a", "HANDED_OFF", by="o", to="other"))
    await table.ended("handed", "elsewhere", "without-authority")
