"""A specialist in a file of one's own joins while everything runs: a run that waited for it ends, a team that others
play gets one more voice."""

from pathlib import Path

from blackboard.board import Board
from blackboard.client import Client
from schemas import events as e
from schemas.playbooks import Playbook, Step
from tests.end_to_end.environments import make_environment
from tests.end_to_end.support import Start, call, ended, events_of, offered, run_until

SHOUT = """
from specialists.specialist import specialist


@specialist("shouter", offers="shouting")
async def shouter(item: dict[str, str]) -> str:
    return item["text"].upper()
"""

LICENCE_GUESSER = '''
from typing import Any

from specialists.licences.evidence import Evidence
from specialists.specialist import Stop, specialist


@specialist("guesser", offers="licence-evidence")
async def guesser(item: dict[str, Any]) -> Evidence:
    """Guesses from the name alone."""
    if item["name"].endswith("7"):
        raise Stop("LOW_CONFIDENCE", "an unlucky number")
    return Evidence(kind="expression", expression="MIT")
'''


async def test_a_run_waits_for_it_and_ends(shared: Board, there: list[str], start: Start, tmp_path: Path) -> None:
    (tmp_path / "voices.py").write_text(SHOUT)
    supervisor = start("supervise", *there)
    client = Client(shared, "publisher")
    step = Step(id="loud", capability="shouting", input={"text": "input.text"})
    await client.teach(Playbook(team="loud", steps=[step], returns={"said": "facts.loud"}))
    await client.publish("loud", {"text": "hello"}, "hello")
    waiting = (await run_until(shared, "hello", lambda state: state.timers)).state
    assert (waiting.steps["loud"].awaiting, waiting.phase) == ("shouting", "DISPATCH")

    worker = start("attach", "./voices.py:shouter", *there, cwd=tmp_path)
    await worker.says("attached to board")
    state = await ended(shared, "hello")
    assert (state.end, state.result) == ("DONE", {"said": "HELLO"})
    assert "shouter offers shouting" in worker.said
    assert "1 waited for it: hello" in worker.said
    assert (supervisor.code, worker.code) == (None, None)

    await worker.stop()
    assert (await call("detach", "shouter", *there)).code == 0
    await client.publish("loud", {"text": "again"}, "again")
    assert (await run_until(shared, "again", lambda state: state.timers)).state.steps["loud"].awaiting == "shouting"


async def test_a_run_that_waits_is_found_by_the_next_supervisor(
    shared: Board, there: list[str], start: Start, tmp_path: Path
) -> None:
    """Also when its history holds a value that looks like the end of a run."""
    (tmp_path / "voices.py").write_text(SHOUT)
    supervisor = start("supervise", *there)
    client = Client(shared, "publisher")
    step = Step(id="loud", capability="shouting", input={"text": "input.text"})
    await client.teach(Playbook(team="loud", steps=[step]))
    await client.publish("loud", {"text": "hello", "more": {"type": "run_ended"}}, "hello")
    await run_until(shared, "hello", lambda state: state.timers)
    supervisor.kill()
    await start("supervise", *there).says("took over")
    worker = start("attach", "./voices.py", *there, cwd=tmp_path)
    await worker.says("attached to board")
    assert (await ended(shared, "hello")).end == "DONE"
    assert "1 waited for it: hello" in worker.said


async def test_one_more_observer_has_a_voice_on_every_fact(
    shared: Board, there: list[str], start: Start, tmp_path: Path
) -> None:
    (tmp_path / "guesser.py").write_text(LICENCE_GUESSER)
    environment = make_environment(tmp_path / "environment", 20)
    start("supervise", *there)
    start("attach", "licences", *there)
    await offered(shared, "licences", "licence-policy")
    client = Client(shared, "publisher")
    alone = await ended(shared, await client.publish("licences", {"path": str(environment)}, "alone"))
    start("attach", "./guesser.py:guesser", *there, cwd=tmp_path)
    await offered(shared, "guesser")
    both = await ended(shared, await client.publish("licences", {"path": str(environment)}, "both"))
    assert (alone.end, both.end) == ("DONE", "DONE")
    assert "guesser" not in str(alone.facts)

    facts = {key: fact for key, fact in both.facts.items() if key.startswith("licence.")}
    won = {key for key, fact in facts.items() if fact.by == "guesser"}
    lost = {key for key, fact in facts.items() if any(loser.by == "guesser" for loser in fact.losers)}
    silent = {key for key, fact in facts.items() if any(voice.by == "guesser" for voice in fact.declined)}
    assert len(facts) == len(won) + len(lost) + len(silent) == 20
    assert silent == {"licence.package-0007", "licence.package-0017"}
    assert min(len(won), len(lost)) >= 2
    spoken = [event for event in await events_of(shared, "both") if isinstance(event, e.TaskEnded)]
    assert sum(event.specialist == "guesser" for event in spoken) == 20
    assert both.result is not None
    assert alone.result is not None
    assert both.result["conflicts"] > alone.result["conflicts"]

    told = await call("why", "both", "licence.package-0002", *there)
    assert (told.code, "guesser" in told.out) == (0, True), told
