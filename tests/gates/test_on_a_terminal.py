"""Questions on a terminal: what may be answered is offered, and a mistake is asked again."""

from collections.abc import Callable, Iterator, Sequence

import pytest

from blackboard.board import Board
from blackboard.client import Client
from tests.end_to_end.support import ended
from tests.gates.desk import Person, asks
from tests.gates.terminal import Terminal

Open = Callable[..., Terminal]


@pytest.fixture
def terminal(there: list[str]) -> Iterator[Open]:
    """Calls a verb as ann on a terminal."""
    opened: list[Terminal] = []

    def call(verb: str, *words: str) -> Terminal:
        opened.append(Terminal([verb, "--name", "ann", *there, *words]))
        return opened[-1]

    yield call
    for one in opened:
        one.close()


@pytest.mark.parametrize(
    ("team", "prompt", "wrong", "right", "result"),
    [
        ("choice", "number or value", ["blue", "4"], "2", {"colour": "green"}),
        ("choice", "number or value", [], "red", {"colour": "red"}),
        ("choice", "number or value", [], "3", {"colour": 3}),
        ("named", "answer (string)", ["x"], "5 o'clock", {"name": "5 o'clock"}),
        ("dug", "answer (integer)", ["deep", "0", "1.5"], "12", {"dig": 12}),
        ("agreed", "answer [y/n]", ["perhaps"], "n", {"agree": False}),
        ("rated", "answer (JSON)", ["low", '{"risk": "middle"}'], '{"risk": "low"}', {"rate": {"risk": "low"}}),
    ],
)
async def test_mistake_is_asked_again(
    shared: Board,
    pat: Client,
    terminal: Open,
    team: str,
    prompt: str,
    wrong: Sequence[str],
    right: str,
    result: dict[str, object],
) -> None:
    await asks(shared, pat, team, "run")
    before = await shared.log.head()
    one = terminal("answer", "run")
    for times, line in enumerate(wrong, 1):
        await one.shows(f"{prompt}:", times)
        one.types(line)
        await one.shows("Error: ", times)
        assert await shared.log.head() == before, "nothing is sent"
    await one.shows(f"{prompt}:", len(wrong) + 1)
    one.types(right)
    assert await one.ended() == 0, one.shown
    assert "of run is answered with" in one.shown
    assert one.shown.count("Error: ") == len(wrong)
    assert (await ended(shared, "run")).result == result


@pytest.mark.parametrize(
    ("verb", "team", "prompt"),
    [("answer", "named", "answer (string):"), ("approve", "sent", "approve send.1 of run? [y/N]:")],
)
async def test_interrupted_nothing_is_sent(
    shared: Board, pat: Client, terminal: Open, verb: str, team: str, prompt: str
) -> None:
    await asks(shared, pat, team, "run")
    before = await shared.log.head()
    one = terminal(verb, "run")
    await one.shows(prompt)
    one.interrupt()
    assert await one.ended() == 1
    assert "Aborted!" in one.shown
    assert await shared.log.head() == before


async def test_inbox_marks_what_is_for_others(shared: Board, pat: Client, terminal: Open) -> None:
    await asks(shared, pat, "rated", "mine")
    await asks(shared, pat, "choice", "anybody")
    one = terminal("inbox", "--name", "carol")
    assert await one.ended() == 0
    dim = [line for line in one.raw.splitlines() if line.startswith("\x1b[2m")]
    assert ["run mine" in line for line in dim] == [True, False, False, False]
    assert one.shown.index("run anybody") < one.shown.index("run mine")


async def test_inbox_is_drawn_again_as_things_come_and_go(
    shared: Board, pat: Client, bob: Person, terminal: Open
) -> None:
    one = terminal("inbox", "--watch")
    await one.shows("nothing waits for a person")
    await asks(shared, pat, "signed", "first")
    await one.shows("1 gate waits, 1 for ann")
    await asks(shared, pat, "choice", "second")
    await one.shows("2 gates wait, 2 for ann")
    assert "run second  team choice  gate colour" in one.shown
    assert (await bob("answer", "second", "red")).code == 0
    await one.shows("1 gate waits, 1 for ann", 2)
    one.interrupt()
    assert await one.ended() == 130


async def test_run_is_watched_with_what_was_not_to_be_expected(
    shared: Board, pat: Client, bob: Person, terminal: Open
) -> None:
    await asks(shared, pat, "both", "run")
    one = terminal("watch", "run")
    await one.shows("gate colour waits for a person: which colour? `blackboard answer run`")
    assert (await bob("approve", "run", "--yes")).code == 0
    await one.shows("gate write: approved by bob")
    assert (await bob("answer", "run", "red")).code == 0
    assert await one.ended() == 0
    assert 'gate colour: answered by bob: "red"' in one.shown
    assert "run is DONE" in one.shown
