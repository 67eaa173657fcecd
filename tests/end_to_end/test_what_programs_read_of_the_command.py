"""What programs rely on: exit codes, and JSON on stdout with nothing else there."""

from pathlib import Path
from typing import Any

from blackboard.board import Board
from blackboard.client import Client
from schemas.contracts import Contract
from schemas.playbooks import Playbook, Step
from tests.end_to_end import teams
from tests.end_to_end.support import ROOT, Finished, Start, call, call_each, call_python, offered, run_until, until

DEAD = "nats://127.0.0.1:9"


def one(told: Finished) -> Any:
    """The one JSON document on stdout of a verb that went well and had nothing to say to a person."""
    assert (told.code, told.err) == (0, ""), told
    return told.json


async def test_json_stands_alone_on_stdout(shared: Board, there: list[str], start: Start, tmp_path: Path) -> None:
    start("supervise", *there)
    start("attach", teams.write(tmp_path, "squares", teams.SQUARES), *there)
    await offered(shared, "squares", "squarer", "adder")
    words = [
        ["publish", "squares", "numbers=[1,2]", "--run", "published"],
        ["publish", "squares", "numbers=[1,2]", "--run", "followed", "--wait"],
        ["show", "followed"],
        ["schema"],
        ["schema", "squares"],
        ["schema", "squarer"],
        ["schema", "event"],
        ["doctor"],
        ["runs"],
        ["why", "followed", "total"],
        ["rebuild", "followed", "--check"],
        ["cancel", "published"],
        ["publish", "nobody"],
        ["show", "none"],
    ]
    told = dict(zip(map(" ".join, words), await call_each([[*each, "--json", *there] for each in words]), strict=True))
    published, followed, shown, board, team, specialist, event, doctor, runs, why, rebuilt, cancelled, nobody, none = (
        told.values()
    )
    assert one(published) == {"run": "published"}
    assert followed.code == 0
    assert followed.lines[-1]["result"] == {"total": 5}
    assert {line["run"] for line in followed.lines} == {"followed"}
    assert one(shown)["run"] == "followed"
    assert one(board)["specialists"] == {"adder": ["add"], "squarer": ["square"]}
    assert one(team)["team"] == "squares"
    assert one(specialist)["specialist"] == "squarer"
    assert "anyOf" in one(event)
    assert doctor.code == 0
    assert {line["state"] for line in doctor.lines} <= {"ok", "warning"}
    assert {line["run"] for line in runs.lines} == {"published", "followed"}
    assert one(why)
    assert one(rebuilt)["run"] == "followed"
    assert one(cancelled)["run"] == "published"
    assert (nobody.code, nobody.json["exit_code"], "no team 'nobody'" in nobody.json["error"]) == (2, 2, True)
    assert (none.code, none.json["exit_code"]) == (1, 1)


async def test_the_exit_code_says_how_a_run_ended(
    shared: Board, there: list[str], start: Start, tmp_path: Path
) -> None:
    start("supervise", *there)
    start("attach", teams.write(tmp_path, "squares", teams.SQUARES), *there)
    await offered(shared, "squares", "squarer", "adder")
    client = Client(shared, "publisher")
    await client.offer(Contract(specialist="nobody", offers=["nothing"], attempts=1))
    short = Step(id="one", capability="nothing", wait_s=0.2, deadline_s=0.2)
    await client.teach(Playbook(team="absent", steps=[short]))
    await client.teach(Playbook(team="stuck", steps=[Step(id="one", capability="unheard-of", await_s=0.2)]))
    await client.teach(Playbook(team="idle", steps=[Step(id="one", capability="unheard-of")]))
    waiting = start("publish", "idle", "--run", "idle", "--wait", *there)
    await run_until(shared, "idle", lambda state: state.timers)
    assert (await call("cancel", "idle", "--reason", "enough", *there)).code == 0
    await until(lambda: waiting.code is not None, "the publisher to hear of the cancel")
    assert (waiting.code, "enough" in waiting.said) == (6, True), waiting.said
    ends = {
        ("squares", "numbers=[1,2]"): (0, "DONE"),
        ("squares", "numbers=[1,-2]"): (3, "DEGRADED"),
        ("absent",): (4, "FAILED_RETRYABLE"),
        ("stuck",): (4, "FAILED"),
    }
    told = await call_each([["publish", *words, "--wait", *there] for words in ends])
    assert [ended.code for ended in told] == [code for code, _ in ends.values()]
    assert [end in ended.err for ended, (_, end) in zip(told, ends.values(), strict=True)] == [True] * len(ends), told


async def test_no_board_is_a_sentence_and_code_69(tmp_path: Path) -> None:
    dead = await call("publish", "x", "--nats", DEAD)
    assert (dead.code, dead.out, dead.err.count("\n"), DEAD in dead.err) == (69, "", 1, True)
    nowhere = await call("runs", cwd=tmp_path)
    assert (nowhere.code, nowhere.out, nowhere.err.count("\n")) == (69, "", 1)
    assert "blackboard up" in nowhere.err
    doctor = await call("doctor", "--json", cwd=tmp_path)
    assert doctor.code == 1
    assert [line["what"] for line in doctor.lines if line["state"] == "problem"] == ["server"]
    unknown = await call("fly", cwd=tmp_path)
    assert (unknown.code, "No such command 'fly'" in unknown.err) == (2, True)


HEAVY = {"nats", "pydantic", "rich", "eventsourcing", "msgspec", "jsonschema_rs", "uvloop"}
HELP = """
import sys
from blackboard.cli import cli
try:
    cli(["--help"])
except SystemExit as ended:
    print(*sorted({name.partition(".")[0] for name in sys.modules}), file=sys.stderr)
    sys.exit(ended.code)
"""


async def test_help_imports_nothing_heavy() -> None:
    told = await call_python(HELP)
    assert told.code == 0
    assert "publish" in told.out
    assert HEAVY & set(told.err.split()) == set()


async def test_another_package_of_the_name_supervisor_is_refused(tmp_path: Path) -> None:
    """As PyPI's `supervisor` would be, installed beside."""
    package, module = tmp_path / "package", tmp_path / "module"
    (package / "supervisor").mkdir(parents=True)
    (package / "supervisor" / "__init__.py").write_text("raise SystemExit('it was run')\n")
    module.mkdir()
    (module / "supervisor.py").write_text("raise SystemExit('it was run')\n")
    for folder in (package, module):
        for words in ([], ["--help"], ["supervise"], ["doctor"]):
            told = await call(*words, cwd=tmp_path, PYTHONPATH=f"{folder}:{ROOT}")
            assert (told.code, told.out, told.err.count("\n")) == (1, "", 1), told
            assert "the package `supervisor` does not lie beside it" in told.err
            assert "environment of its own" in told.err
    assert (await call("--help", cwd=tmp_path)).code == 0
