"""Installed merge policies: how they are found, what they may answer, and that the log needs them only to decide."""

import asyncio
import logging
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from blackboard.history_file import Header, HistoryWriter
from blackboard.log import Message
from projections.history import state_digest
from projections.rebuild import rebuild
from schemas import events as e
from schemas.catalogue import Catalogue
from schemas.codec import VALUE_LIMIT, encode
from schemas.playbooks import POLICIES
from schemas.steps import Merge
from schemas.tasks import Item, Task
from supervisor.cli import replay
from supervisor.compare import Equal, NotDecidable, compare
from supervisor.installed import GROUP, installed_policies
from supervisor.merge import REASON_LIMIT, Candidate, Merged, Nothing, Policy, PolicyMissing, Value, merge
from supervisor.replay import redecide
from tests.supervisor.scenario import Said, cancel, ended, goal, offer, step, teach
from tests.supervisor.table import Table, board_in_memory

EXAMPLE = Path(__file__).parents[2] / "examples" / "weighted_policy"
Function = Callable[[list[Candidate], dict[str, Any]], Any]


def asked(function: Function, *values: Any, arrival: bool = False, arguments: dict[str, Any] | None = None) -> Merged:
    """What comes of these claims, of u, v, ..., the last of which came first."""
    policy = Policy("own", 2, function, arrival)
    claims = [
        Candidate(f"a-{place}", by, value, order=90 - place)
        for place, (by, value) in enumerate(zip("uvwxyz", values, strict=False))
    ]
    claims.append(Candidate("a-9", "odd", "odd", refused="not accepted"))
    found = merge(Merge("own", version=2, arguments=arguments or {}), claims, view(policy))
    whole = len(found.losers) + (found.winner is not None)
    assert whole == len(claims), "nothing is lost"
    return found


def view(*policies: Policy) -> Any:
    return Catalogue(keyed(*policies)).below(0)


def keyed(*policies: Policy) -> dict[tuple[str, int], Policy]:
    return {(policy.name, policy.version): policy for policy in policies}


# --- what a policy may answer -----------------------------------------------------------------------------------------


def test_a_claim_wins() -> None:
    found = asked(lambda claims, _: claims[1], 1, 2, 2)
    assert (found.found, found.value, found.winner and found.winner.by, found.reason) == (True, 2, "v", "")
    assert [(loser.by, loser.reason) for loser in found.losers] == [
        ("u", "`own` version 2 takes another claim"),
        ("w", ""),
        ("odd", "not accepted"),
    ]


def test_a_value_is_made() -> None:
    found = asked(lambda claims, arguments: Value({"sum": sum(c.value for c in claims), **arguments}), 1, 2)
    assert (found.found, found.value, found.winner) == (True, {"sum": 3}, None)
    assert [loser.reason for loser in found.losers][:2] == ["`own` version 2 makes another value"] * 2
    nothing = asked(lambda *_: Value(None), 1, None)
    assert (nothing.found, nothing.value, nothing.winner) == (True, None, None), "null is a value"
    assert [loser.reason for loser in nothing.losers][1] == "", "and one claimed just that"


def test_there_is_no_value_for_a_reason() -> None:
    found = asked(lambda *_: Nothing("too\nfew" + "." * 1_000), 1, 2)
    assert (found.found, found.winner, found.conflict) == (False, None, False)
    assert found.reason == "`own` version 2: too\nfew" + "." * (REASON_LIMIT - 7)
    assert {loser.reason for loser in found.losers} == {found.reason, "not accepted"}


class Odd:
    def __eq__(self, other: object) -> bool:
        raise AssertionError

    __hash__ = object.__hash__


async def later(*_: Any) -> None: ...


def fails(*_: Any) -> None:
    raise ZeroDivisionError("a text that another release words otherwise")


def leaves(*_: Any) -> None:
    sys.exit(3)


def circle(*_: Any) -> Value:
    value: list[Any] = []
    value.append(value)
    return Value(value)


def forever(*_: Any) -> Any:
    return forever()


NONSENSE: dict[str, tuple[Function, str]] = {
    "none": (lambda *_: None, "answers with neither a claim nor Value(...) nor Nothing(reason)"),
    "index": (lambda *_: 0, "answers with neither a claim nor Value(...) nor Nothing(reason)"),
    "bare value": (lambda *_: {"a": 1}, "answers with neither a claim nor Value(...) nor Nothing(reason)"),
    "odd": (lambda *_: Odd(), "answers with neither a claim nor Value(...) nor Nothing(reason)"),
    "no reason": (lambda *_: Nothing(""), "answers with neither a claim nor Value(...) nor Nothing(reason)"),
    "reason": (lambda *_: Nothing(7), "answers with neither a claim nor Value(...) nor Nothing(reason)"),
    "half a reason": (lambda *_: Nothing("\ud800"), "answers with neither a claim nor Value(...) nor Nothing(reason)"),
    "invented": (lambda *_: Candidate("a-0", "u", 99), "answers with a claim that it was not given"),
    "raises": (fails, "raises ZeroDivisionError"),
    "exits": (leaves, "raises SystemExit"),
    "recursion": (forever, "raises RecursionError"),
    "tuple": (lambda *_: Value((1, 2)), "makes a tuple"),
    "set": (lambda *_: Value([{"a": {1, 2}}]), "makes a set"),
    "bytes": (lambda *_: Value(b"bytes"), "makes a bytes"),
    "object": (lambda *_: Value([Odd()]), "makes a Odd"),
    "key": (lambda *_: Value({1: 2}), "makes a key that is no text"),
    "half a key": (lambda *_: Value({"\ud800": 2}), "makes half of a character"),
    "half": (lambda *_: Value("\ud800"), "makes half of a character"),
    "infinite": (lambda *_: Value([float("inf")]), "makes a number that is not finite"),
    "large number": (lambda *_: Value(2**64), "makes a whole number of more than 64 bits"),
    "circle": (circle, "makes more than 64 lists and objects inside each other"),
}


@pytest.mark.parametrize("name", NONSENSE)
def test_nonsense_is_no_value_and_says_whose(name: str) -> None:
    function, problem = NONSENSE[name]
    found = asked(function, 1, 2)
    assert (found.found, found.value, found.winner, found.conflict) == (False, None, None, False)
    assert found.reason == f"`own` version 2 {problem}"
    assert encode(found), "and can be stored"


def test_a_value_that_is_too_large_is_none() -> None:
    found = asked(lambda *_: Value("x" * VALUE_LIMIT), 1, 2)
    assert not found.found
    assert found.reason == f"it would have {VALUE_LIMIT + 2} bytes; the limit of a value is {VALUE_LIMIT}"


def test_what_draws_lots_or_remembers_is_found_out() -> None:
    draws = iter(range(10))
    for answer in (lambda claims, _: claims[next(draws) % 2], lambda *_: Value(next(draws))):
        found = asked(answer, 1, 2)
        assert (found.found, found.reason) == (False, "`own` version 2 says something else each time")


def test_what_a_policy_does_to_its_claims_and_arguments_is_forgotten() -> None:
    arguments, value = {"weights": {"u": 1}}, {"list": [1]}

    def meddles(claims: list[Candidate], given: dict[str, Any]) -> Candidate:
        given["weights"]["u"] += 1
        assert given["weights"]["u"] == 2
        taken = claims.pop()
        taken.value["list"].append(2)
        claims.clear()
        return taken

    found = asked(meddles, value, value, arguments=arguments)
    assert (found.found, found.value, found.winner and found.winner.by) == (True, {"list": [1]}, "v")
    assert (arguments, value) == ({"weights": {"u": 1}}, {"list": [1]})


def test_who_came_first_is_told_to_those_who_ask() -> None:
    given: list[list[tuple[str, int]]] = []

    def notes(claims: list[Candidate], _: dict[str, Any]) -> Candidate:
        given.append([(claim.by, claim.order) for claim in claims])
        return claims[0]

    asked(notes, 1, 2, 3)
    asked(notes, 1, 2, 3, arrival=True)
    by_name, by_arrival = given[0], given[-1]
    assert by_name == [("u", 0), ("v", 0), ("w", 0)]
    assert by_arrival == [("w", 88), ("v", 89), ("u", 90)]


def test_a_policy_is_not_asked_about_nothing() -> None:
    found = merge(Merge("own", version=2), [], view(Policy("own", 2, fails)))
    assert (found.found, found.reason) == (False, "nobody claimed a value")


@pytest.mark.parametrize("held", [[], [Policy("own", 1, fails)], [Policy("other", 2, fails)]])
def test_a_policy_that_is_not_installed_is_named(held: list[Policy]) -> None:
    with pytest.raises(PolicyMissing, match="the policy `own` version 2 is not installed beside this supervisor; inst"):
        merge(Merge("own", version=2), [Candidate("a", "u", 1)], view(*held))


# --- what can be a policy ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted({*POLICIES, "bids"}))
def test_built_in_policies_stay_as_they_are(name: str) -> None:
    with pytest.raises(ValueError, match="is built in and stays as it is"):
        Policy(name, 2, fails)
    said = Merge(name, order=("u",), n=1, specialist="judge")
    planted: Any = {(name, 1): fails}
    value = [1] if name in {"union", "concat"} else 1
    assert merge(said, [Candidate("a", "u", value)], Catalogue(planted).below(0)).found


@pytest.mark.parametrize(
    ("name", "version", "function"),
    [
        ("", 1, fails),
        ("a b", 1, fails),
        ("x" * 65, 1, fails),
        (".".join(["abc"] * 17), 1, fails),
        (None, 1, fails),
        ("own", 0, fails),
        ("own", "1", fails),
        ("own", True, fails),
        ("own", 1, "function"),
        ("own", 1, later),
    ],
)
def test_what_cannot_be_a_policy(name: Any, version: Any, function: Any) -> None:
    with pytest.raises(ValueError, match=r"is no name|is no whole number|has no plain function"):
        Policy(name, version, function)


# --- how they are found -----------------------------------------------------------------------------------------------

GOOD = "from supervisor.merge import *\ndef take(claims, arguments): return claims[0]\n"


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Installs packages, each with one module and its entry points."""
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)

    def install(package: str, source: str, **offered: str) -> None:
        (tmp_path / f"{package}.py").write_text(source)
        metadata = tmp_path / f"{package}-1.5.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.5\n")
        lines = [f"{name.replace('__', '.')} = {package}:{what}" for name, what in offered.items()]
        (metadata / "entry_points.txt").write_text("\n".join([f"[{GROUP}]", *lines]))

    yield install
    for name in set(sys.modules) - before:
        del sys.modules[name]


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    assert {record.levelname for record in caplog.records} <= {"WARNING"}
    return [record.getMessage() for record in caplog.records]


def test_policies_of_all_packages_are_found(environment: Callable[..., None], caplog: pytest.LogCaptureFixture) -> None:
    environment("pk_one", GOOD + "OWN = Policy('own', 1, take)\nDOT = Policy('a.b', 4, take)\n", own="OWN", a__b="DOT")
    environment("pk_two", GOOD + "BOTH = [Policy('two', n, take) for n in (1, 2)]\n", two="BOTH")
    found = installed_policies()
    assert set(found) == {("own", 1), ("a.b", 4), ("two", 1), ("two", 2)}
    assert all((policy.name, policy.version) == key for key, policy in found.items())
    assert warnings_of(caplog) == []


BROKEN = {
    "import nothing_of_that_name\n": "ModuleNotFoundError: No module named 'nothing_of_that_name'",
    "raise SystemExit(4)\n": "SystemExit: 4",
    "1 / 0\n": "ZeroDivisionError: division by zero",
    "def\n": "SyntaxError: ",
    "": "AttributeError: module 'pk_bad' has no attribute 'OWN'",
    "def OWN(claims, arguments): ...\n": "pk_bad:OWN is no supervisor.merge.Policy",
    GOOD + "OWN = [Policy('own', 1, take), take]\n": "pk_bad:OWN is no supervisor.merge.Policy",
    GOOD + "OWN = Policy('other', 1, take)\n": "pk_bad:OWN is named `other`; the entry point must have the same name",
    GOOD + "OWN = Policy('only', 1, take)\n": "ValueError: `only` is built in and stays as it is; choose another name",
    GOOD + "async def own(*_): ...\nOWN = Policy('own', 1, own)\n": "ValueError: `own` has no plain function to call",
}


@pytest.mark.parametrize("source", BROKEN)
def test_a_broken_one_is_passed_over_and_the_distribution_is_named(
    source: str, environment: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    environment("pk_bad", source, own="OWN")
    environment("pk_good", GOOD + "FINE = Policy('fine', 1, take)\n", fine="FINE")
    assert set(installed_policies()) == {("fine", 1)}
    (said,) = warnings_of(caplog)
    assert said.startswith(f"merge policy `own` of pk_bad 1.5 is passed over: {BROKEN[source]}")


def test_of_two_packages_with_the_same_policy_neither_is_used(
    environment: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    for package, versions in (("pk_b", (1, 2)), ("pk_a", (2, 3))):
        environment(package, GOOD + f"OWN = [Policy('own', n, take) for n in {versions}]\n", own="OWN")
    assert set(installed_policies()) == {("own", 1), ("own", 3)}
    said = "merge policy `own` version 2 is passed over: pk_a 1.5 and pk_b 1.5 offer it"
    assert warnings_of(caplog) == [said]


def test_the_example_is_a_package_that_offers_a_policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Built and installed as a reader would, into a folder of its own."""
    options = ["--no-build-isolation", "--no-deps", "--disable-pip-version-check", "--quiet", "--target", str(tmp_path)]
    subprocess.run([sys.executable, "-m", "pip", "install", *options, str(EXAMPLE)], check=True)
    monkeypatch.syspath_prepend(tmp_path)
    assert [entry.value for entry in entry_points(group=GROUP, name="weighted")] == ["weighted_policy:WEIGHTED"]
    policy = installed_policies()["weighted", 1]

    def vote(**weights: Any) -> Merged:
        said = Merge("weighted", arguments={"weights": weights})
        voices = {"ann": "yes", "bob": "no", "eve": "no"}
        return merge(said, [Candidate(f"a-{by}", by, value) for by, value in voices.items()], view(policy))

    assert (vote().value, vote(ann=3).value) == ("no", "yes")
    assert vote(ann=2).reason == "`weighted` version 1: no value has more weight than all others: 2 each"
    assert vote(ann="a lot").reason == "`weighted` version 1 raises TypeError"


# --- and in runs ------------------------------------------------------------------------------------------------------


def longest(claims: list[Candidate], arguments: dict[str, Any]) -> Candidate:
    return max(claims, key=lambda claim: (len(claim.value), claim.by))


LONGEST = Policy("longest", 4, longest)
TEAM: tuple[Said, ...] = (
    offer("u", "work"),
    offer("v", "work"),
    teach(
        step("a", specialist="all", input={"x": "input.x"}, merge={"policy": "longest", "version": 4}),
        step("b", needs=["a"], specialist="u", input={"x": "facts.a"}),
        returns={"x": "facts.b"},
    ),
    teach(step("a", specialist="u", input={"x": "input.x"}), returns={"x": "facts.a"}, team="plain"),
)


def text(task: Task, item: Item) -> str:
    return f"{item.input['x']}{'!' * (task.specialist == 'v')}"


def staff(table: Table) -> None:
    table.work("u", text)
    table.work("v", text)


async def test_a_run_whose_policy_is_missing_is_left_alone_and_goes_on_where_it_is_installed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.ERROR)
    async with board_in_memory(*TEAM) as table:
        without = table.supervise(name="without", policies=keyed(Policy("longest", 3, longest)))
        staff(table)
        await table.client.publish("t", {"x": "one"}, "r1")
        await table.client.publish("plain", {"x": "one"}, "r2")

        async def left() -> bool:
            return "r1" in without.supervisor.committer.left

        await table.until(left)
        await table.client.publish("plain", {"x": "two"}, "r3")
        for folded in await table.ended("r2", "r3"):
            assert folded.state.end == "DONE", "the board goes on"
        (said,) = [record.getMessage() for record in caplog.records]
        assert said.startswith("run r1 is left alone from input ")
        assert "the policy `longest` version 4 is not installed beside this supervisor; install a package" in said
        before = (await table.run("r1")).state
        assert (before.end, before.facts) == ("", {})
        assert without.supervisor.floor < without.supervisor.committer.left["r1"]
        await without.kill()

        table.supervise(name="with", policies=keyed(LONGEST))
        (folded,) = await table.ended("r1")
        assert (folded.state.end, folded.state.result) == ("DONE", {"x": "one!"})
        (fact, _) = [event for event in await table.events("r1") if isinstance(event, e.FactCommitted)]
        assert (fact.policy, fact.policy_version, fact.by) == ("longest", 4, "v")


async def test_what_came_in_the_same_breath_is_not_lost() -> None:
    """Both ends are read at once; the policy is needed at the second, when the first is decided and not stored yet."""
    async with board_in_memory(*TEAM) as table:
        opening = table.supervise()
        await table.say(goal({"x": "one"}))

        async def dispatched() -> bool:
            return set((await table.run("r1")).state.tasks) == {"a-0", "a-1"}

        await table.until(dispatched)
        await opening.kill()
        first, last = await table.say(ended("a-0", {"a": "x"}, by="u"), ended("a-1", {"a": "xy"}, by="v"))
        without = table.supervise()
        await without.reached(last)
        assert without.supervisor.committer.left == {"r1": first}
        assert without.supervisor.floor == first - 1
        assert without.supervisor.runs.get("r1") is None, "nothing of it was tried"
        await table.client.publish("plain", {"x": "two"}, "r2")  # so that the floor is on the log
        table.work("u", text)
        await table.ended("r2")
        await without.kill()
        table.supervise(policies=keyed(LONGEST))
        (folded,) = await table.ended("r1")
        assert (folded.state.facts["a"].value, folded.state.end) == ("xy", "DONE")


async def test_who_has_the_policy_decides_while_the_other_leaves_the_run_alone() -> None:
    async with board_in_memory(*TEAM) as table:
        without, having = table.supervise(name="without"), table.supervise(name="with", policies=keyed(LONGEST))
        staff(table)
        runs = [await table.client.publish("t", {"x": "y" * n}, f"r{n}") for n in range(5)]
        assert {folded.state.end for folded in await table.ended(*runs)} == {"DONE"}
        await having.reached(await table.log.head())
        assert having.supervisor.committer.left == {}
        assert set(without.supervisor.committer.left) <= set(runs)


async def recorded() -> tuple[Table, list[Message]]:
    async with board_in_memory(*TEAM) as table:
        table.supervise(policies=keyed(LONGEST))
        staff(table)
        runs = [await table.client.publish("t", {"x": "y" * n}, f"r{n}") for n in range(3)]
        await table.ended(*runs)
        return table, await table.messages()


async def test_a_recorded_history_is_decided_again_with_its_policy_alone() -> None:
    table, messages = await recorded()
    having = compare(table.log.id, messages, policies=keyed(LONGEST))
    assert {run: type(verdict) for run, verdict in having.items()} == dict.fromkeys(("r0", "r1", "r2"), Equal)
    again = redecide(table.log.id, messages, policies=keyed(LONGEST))
    assert {run: again[run].h for run in having} == {run: (await table.run(run)).h for run in having}

    without = compare(table.log.id, messages)
    for run, verdict in without.items():
        assert isinstance(verdict, NotDecidable)
        assert verdict.reason.startswith("the policy `longest` version 4 is not installed")
        first = next(event for event in await table.events(run) if isinstance(event, e.FactCommitted))
        assert verdict.version <= (await table.events(run)).index(first) + 1
    with pytest.raises(PolicyMissing):
        redecide(table.log.id, messages)


async def test_another_policy_under_the_same_version_is_found() -> None:
    table, messages = await recorded()
    shortest = Policy("longest", 4, lambda claims, _: min(claims, key=lambda claim: len(claim.value)))
    for verdict in compare(table.log.id, messages, policies=keyed(shortest)).values():
        assert not isinstance(verdict, Equal | NotDecidable)
        assert {one.field for one in verdict.fields} >= {"value", "by"}


def test_the_command_says_which_policy_it_lacks(tmp_path: Path, environment: Callable[..., None]) -> None:
    table, messages = asyncio.run(recorded())
    path = tmp_path / "recorded.jsonl"
    with path.open("wb") as out:
        writer = HistoryWriter(
            out, Header(log=table.log.id, board="main", upto=messages[-1].seq, floor=messages[-1].seq)
        )
        for message in messages:
            writer.add(message)
        writer.close()
    lacking = CliRunner().invoke(replay, [str(path)])
    assert lacking.exit_code == 1
    assert lacking.stdout.count("cannot be decided again: the policy `longest` version 4 is not installed") == 3
    source = "def take(claims, _): return max(claims, key=lambda claim: (len(claim.value), claim.by))\n"
    environment("pk_longest", GOOD + source + "OWN = Policy('longest', 4, take)\n", longest="OWN")
    having = CliRunner().invoke(replay, [str(path)])
    assert (having.exit_code, having.stdout.count("  equal  ")) == (0, 3), having.output


async def test_rebuilding_calls_no_policy() -> None:
    calls: list[str] = []

    def counted(claims: list[Candidate], arguments: dict[str, Any]) -> Candidate:
        calls.append("asked")
        return longest(claims, arguments)

    async with board_in_memory(*TEAM) as table:
        supervising = table.supervise(policies=keyed(Policy("longest", 4, counted)))
        staff(table)
        await table.client.publish("t", {"x": "one"}, "r1")
        (folded,) = await table.ended("r1")
        await supervising.kill()
        asked_twice = len(calls)
        assert asked_twice == 2
        again = await rebuild(table.board(), "r1")
        assert (again.h, state_digest(again.state)) == (folded.h, state_digest(folded.state))
        assert len(calls) == asked_twice


def test_what_rebuilds_does_not_even_load_what_decides() -> None:
    lines = "import projections.rebuild, projections.audit, sys; print([m for m in sys.modules if 'supervisor' in m])"
    done = subprocess.run([sys.executable, "-c", lines], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("missing", ["fail", "allow"])
async def test_a_policy_that_fails_ends_in_no_value_and_not_in_a_stopped_board(missing: str) -> None:
    asked_all = step("a", specialist="all", input={"x": "`1`"}, merge={"policy": "own", "version": 1}, missing=missing)
    team = [*TEAM, teach(asked_all, returns={"x": "facts.a"}, team="odd")]
    async with board_in_memory(*team) as table:
        policies = keyed(Policy("own", 1, fails))
        supervising = table.supervise(policies=policies)
        staff(table)
        await table.client.publish("odd", {}, "r1")
        (folded,) = await table.ended("r1")
        assert (folded.state.end, folded.state.code) == (
            ("FAILED", "LOW_CONFIDENCE") if missing == "fail" else ("DEGRADED", "")
        )
        (lacked,) = [event for event in await table.events("r1") if isinstance(event, e.FactMissing)]
        assert lacked.message == "`own` version 1 raises ZeroDivisionError"
        assert {loser.reason for loser in lacked.losers} == {lacked.message}
        assert supervising.supervisor.committer.left == {}
        verdict = compare(table.log.id, await table.messages(), policies=policies)["r1"]
        assert isinstance(verdict, Equal)


async def test_a_run_that_waits_for_its_policy_can_be_cancelled_by_who_has_it() -> None:
    """What was said meanwhile is decided in the order in which it came: the fact comes first, then the end."""
    async with board_in_memory(*TEAM) as table:
        without = table.supervise()
        staff(table)
        await table.client.publish("t", {"x": "one"}, "r1")

        async def left() -> bool:
            return "r1" in without.supervisor.committer.left

        await table.until(left)
        await table.say(cancel())
        await without.kill()
        table.supervise(policies=keyed(LONGEST))
        (folded,) = await table.ended("r1")
        assert (folded.state.end, folded.state.facts["a"].value) == ("CANCELLED", "one!")


def test_the_document_shows_the_example_as_it_is() -> None:
    document = (EXAMPLE.parents[1] / "docs" / "merging.md").read_text()
    for name in ("weighted_policy.py", "pyproject.toml"):
        assert (EXAMPLE / name).read_text().strip() in document, name
    assert tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]["dependencies"] == []
