"""Runs in which coordination shows: a board with teams for budgets, open calls, hand-offs, conflicts, revisions and
newer values, each run brought as far as its test looks at it."""

from typing import Any

from blackboard.board import Board
from blackboard.client import Client
from projections.live import follow
from schemas.tasks import Task
from schemas.usage import Usage
from tests.planning.proposing import proposed
from tests.projections.scripted import Scripted, at_work, done

ODD = "\x1b[31mred"
"""A text with which a specialist tries to paint on terminals."""


def bid(task: Task, **terms: Any) -> list[dict[str, Any]]:
    return [done(task, terms, usage=Usage())]


def cheap(task: Task) -> list[dict[str, Any]]:
    if task.kind == "bid":
        return bid(task, can=True, confidence=0.9, micro_usd=20_000, seconds=2)
    return [{"code": "HANDED_OFF", "to": "dear", "message": "too deep"}]


def dear(task: Task) -> list[dict[str, Any]]:
    if task.kind == "bid":
        return bid(task, can=True, confidence=0.8, micro_usd=500_000)
    return [done(task, "a hole", usage=Usage(input_tokens=7, output_tokens=3, tool_calls=2, micro_usd=480_000))]


def unable(task: Task) -> list[dict[str, Any]]:
    return bid(task, can=False)


def judge(task: Task) -> list[dict[str, Any]]:
    """Takes the last of the values that differ."""
    return [done(task, task.items[0].input["values"][-1])]


def first_and_newer(task: Task) -> list[dict[str, Any]]:
    """Serves one task after the other, in the order of the plan."""
    return [done(task, {"draft": "old", "correct": "new"}.get(task.task) or f"{task.task} on {task.items[0].input}")]


def fails(task: Task) -> list[dict[str, Any]]:
    return [{"code": "INTERNAL", "message": ODD}]


def down(task: Task) -> list[dict[str, Any]]:
    return [{"code": "TOOL_DOWN", "message": "no answer"}]


def greedy(task: Task) -> list[dict[str, Any]]:
    return [done(task, "all", usage=Usage(input_tokens=90, output_tokens=60, micro_usd=1_500_000))]


def thinker(task: Task) -> list[dict[str, Any]]:
    """Its first plan asks for what nobody offers; whether the next one does, the goal says."""
    input = task.items[0].input
    steps = [proposed("carry", "haul"), proposed("count", "count", missing="allow")]
    refused = not input["planning"]["refused"] or input["stubborn"]
    return [done(task, {"steps": [proposed("fly", "fly")] if refused else steps})]


SPECIALISTS = {
    "thinker": Scripted(thinker, {"offers": ["think"]}),
    "cheap": Scripted(cheap, {"offers": ["dig"], "authority": "propose"}),
    "dear": Scripted(dear, {"offers": ["dig"]}),
    "unable": Scripted(unable, {"offers": ["dig"]}),
    "one": Scripted(lambda task: [done(task, 1)], {"offers": ["count"]}),
    "two": Scripted(lambda task: [done(task, 2)], {"offers": ["count"]}),
    "judge": Scripted(judge, {"offers": ["judge"]}),
    "writer": Scripted(first_and_newer, {"offers": ["write"]}),
    "clumsy": Scripted(fails, {"offers": ["carry"], "attempts": 5}),
    "steady": Scripted(lambda task: [done(task, "there")], {"offers": ["haul"]}),
    "offline": Scripted(down, {"offers": ["reach"], "attempts": 3, "backoff_s": 600, "backoff_max_s": 600}),
    "greedy": Scripted(greedy, {"offers": ["eat"], "budget": {"tokens": 100, "micro_usd": 2_000_000}}),
    "idle": Scripted(None, {"offers": ["doze"], "budget": {"tokens": 60}}),
}

TEAMS: list[dict[str, Any]] = [
    {
        "team": "called",
        "steps": [{"id": "dig", "capability": "dig", "call": {"bids_s": 20}, "hand_to": ["dear"]}],
        "returns": {"dig": "facts.dig"},
    },
    {
        "team": "argued",
        "steps": [
            {
                "id": "sum",
                "capability": "count",
                "specialist": "all",
                "merge": {"policy": "reconcile", "specialist": "judge"},
            },
            {
                "id": "both",
                "capability": "count",
                "specialist": "all",
                "missing": "allow",
                "merge": {"policy": "quorum", "n": 2},
            },
        ],
        "returns": {"sum": "facts.sum"},
    },
    {
        "team": "corrected",
        "steps": [
            {"id": "draft", "capability": "write", "fact": "text"},
            {"id": "correct", "needs": ["draft"], "capability": "write", "fact": "text", "replaces": True},
            {
                "id": "report",
                "needs": ["draft"],
                "capability": "write",
                "input": {"text": "facts.text"},
                "stale": "mark",
            },
            {"id": "size", "needs": ["report"], "value": "length(facts.report)"},
        ],
        "returns": {"report": "facts.report"},
    },
    {
        "team": "repaired",
        "breaker": 2,
        "steps": [{"id": "carry", "capability": "carry"}],
        "replans": [{"step": "carry", "steps": [{"id": "haul", "capability": "haul"}]}],
        "returns": {"haul": "facts.haul"},
    },
    {
        "team": "planned",
        "steps": [
            {"id": "plan", "capability": "think", "plans": {"proposals": 2}, "input": {"stubborn": "input.stubborn"}},
        ],
        "returns": {"all": "facts.plan_facts"},
    },
    {"team": "later", "steps": [{"id": "reach", "capability": "reach"}]},
    {"team": "eaten", "budget": {"tokens": 120}, "steps": [{"id": "eat", "capability": "eat"}]},
    {
        "team": "crowded",
        "budget": {"tokens": 100},
        "steps": [{"id": "doze", "capability": "doze", "for_each": "`[1, 2]`"}],
    },
    {
        "team": "asked",
        "steps": [{"id": "say", "question": {"ask": f"{ODD}?", "answer": {"type": "string"}, "who": ["ann", "bob"]}}],
        "returns": {"say": "facts.say"},
    },
]

RUNS = ("called", "argued", "corrected", "repaired", "later", "eaten", "crowded", "asked", "said", "planned", "refused")


async def populate(board: Board) -> None:
    """A run of each team under its name, brought to its end, or to where it waits; `said` is answered."""
    async with at_work(board, SPECIALISTS, TEAMS) as client:
        for run in RUNS:
            team = {"said": "asked", "refused": "planned"}.get(run, run)
            await client.publish(team, {"stubborn": run == "refused"}, run)
        for run in ("called", "argued", "corrected", "repaired", "eaten", "planned", "refused"):
            await _until(board, run, lambda state: state.end)
        await _until(board, "later", lambda state: "retry.reach" in state.timers)
        await _until(board, "crowded", lambda state: state.in_flight and len(state.tasks) > 1)
        said = await _until(board, "said", lambda state: state.open_gates)
        await _until(board, "asked", lambda state: state.open_gates)
        await Client(board, "bob").answer("said", "say", said.gates["say"].digest, ODD)
        await _until(board, "said", lambda state: state.end)


async def _until(board: Board, run: str, true: Any) -> Any:
    async for folded in follow(board, run):
        if true(folded.state):
            return folded.state
    raise AssertionError(f"run {run} ended: {folded.state.reason}")
