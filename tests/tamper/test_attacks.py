"""Whatever is done to a stored log is named at the event, and of a log that nobody touched nothing is said. A slice of
`make tamper`.
"""

import random
import shutil
from collections import defaultdict
from pathlib import Path

import pytest

from blackboard.jetstream_streams import StreamMismatch
from tests.end_to_end.support import call, call_each, past_the_client
from tests.plugins.figures import Figures
from tests.tamper import attacks, live
from tests.tamper.attacks import Attack
from tests.tamper.clean import verdict_on_world
from tests.tamper.judge import tried, tried_live, unnamed, unnamed_live
from tests.tamper.recorded import PUBLIC, WITNESS, Place, Recorded, verdict_on

OF_EACH_KIND = 4
CLEAN = 60


def drawn(recorded: Recorded, of_each: int) -> list[Attack]:
    kinds: dict[str, list[Attack]] = defaultdict(list)
    for attack in attacks.on_disk(recorded):
        kinds[attack.kind].append(attack)
    random_ = random.Random(7)
    return [one for kind in kinds.values() for one in random_.sample(kind, min(of_each, len(kind)))]


async def test_attacks_on_the_files_are_named(recorded: Recorded, tmp_path: Path, figures: Figures) -> None:
    problems, chosen = {}, drawn(recorded, OF_EACH_KIND)
    for attack in chosen:
        if problem := unnamed(recorded, attack, await tried(recorded, attack, tmp_path / "copy")):
            problems[attack.name] = problem
    figures.say(
        f"attacks on files: {len(chosen)} of {len({one.kind for one in chosen})} kinds, unnamed: {len(problems)}"
    )
    assert problems == {}


async def test_attacks_on_the_live_stream_are_named(recorded: Recorded, tmp_path: Path) -> None:
    problems = {}
    for attack in live.attacks(recorded):
        if problem := unnamed_live(attack, await tried_live(recorded, attack, tmp_path / "copy")):
            problems[attack.kind] = problem
    assert problems == {}


def test_nothing_is_said_of_clean_boards(figures: Figures) -> None:
    verdicts = {seed: verdict_on_world(seed) for seed in range(5_000, 5_000 + CLEAN)}
    alarms = {seed: verdict.findings for seed, verdict in verdicts.items() if verdict.findings}
    messages = sum(verdict.messages for verdict in verdicts.values())
    figures.say(f"clean boards: {CLEAN} with {messages} messages, false alarms: {len(alarms)}")
    assert alarms == {}
    assert all(verdict.signed and verdict.signed.seq == verdict.head for verdict in verdicts.values())


async def test_a_rewriting_is_consistent_and_only_the_notary_tells(recorded: Recorded, tmp_path: Path) -> None:
    seq = recorded.sequences(".obs.alice.", b'"claims":[{')[0]
    attack = attacks.rewritten(recorded, seq)
    assert len(attack.changed) > 2
    assert (await tried(recorded, attack, tmp_path / "copy", witnessed=False)).findings == ()
    verdict = await tried(recorded, attack, tmp_path / "copy")
    assert tuple(one.seq for one in verdict.findings) == attack.changed
    place = recorded.places[seq]
    assert (verdict.findings[0].run, verdict.findings[0].version) == (place.run, place.version)


@pytest.mark.parametrize("kind", ["a bit flipped", "messages dropped from the middle", "the author changed"])
async def test_without_a_notary_what_events_cite_is_named(recorded: Recorded, tmp_path: Path, kind: str) -> None:
    seq = recorded.sequences(".obs.alice.", b'"claims":[{')[0]
    make = {
        "a bit flipped": lambda: attacks.bit_flipped(recorded, seq, mended=True),
        "messages dropped from the middle": lambda: attacks.dropped(recorded, seq, seq),
        "the author changed": lambda: attacks.author_changed(recorded, seq),
    }
    verdict = await tried(recorded, make[kind](), tmp_path / "copy", witnessed=False)
    (finding,) = verdict.findings
    place = recorded.places[seq]
    assert (finding.run, finding.version) == (place.run, place.version)
    assert str(seq) in f"{finding.seq} {finding.problem}"


async def test_one_run_is_verified_alone(recorded: Recorded, tmp_path: Path) -> None:
    """By its own messages, and the others are not looked at."""
    mine, others = recorded.sequences(".fact.two")[-1], recorded.sequences(".fact.one")[-1]
    for seq, expected in ((mine, [(mine, "two", recorded.places[mine].version)]), (others, [])):
        for attack in (attacks.dropped(recorded, seq, seq), attacks.bit_flipped(recorded, seq, mended=True)):
            async with recorded.restored(tmp_path / "copy", attack.do) as url:
                verdict = await verdict_on(url, recorded.folder / WITNESS, "two")
            assert [(one.seq, one.run, one.version) for one in verdict.findings] == expected
            shutil.rmtree(tmp_path / "copy")


async def test_a_clean_end_and_a_cut_tail_are_told_apart(recorded: Recorded, tmp_path: Path) -> None:
    head = len(recorded.messages)
    async with recorded.restored(tmp_path / "whole") as url:
        whole = await verdict_on(url, recorded.folder / WITNESS)
    assert (whole.findings, whole.head, whole.signed and whole.signed.seq) == ((), head, head)
    for cut in (head, head - 1):
        attack = attacks.cut(recorded, cut)
        without = await tried(recorded, attack, tmp_path / "copy", witnessed=False)
        assert without.findings == (), "the log alone looks like one that was shorter"
        verdict = await tried(recorded, attack, tmp_path / "copy")
        first = verdict.findings[0]
        assert (verdict.head, first.seq, first.upto) == (cut - 1, cut, head)
        assert f"the log ends at sequence {cut - 1}" in first.problem
        place = recorded.places[head]
        assert Place(place.run, place.version) in [Place(one.run, one.version) for one in verdict.findings]


async def test_a_limit_that_was_left_is_named_by_the_command(recorded: Recorded, tmp_path: Path) -> None:
    async with recorded.restored(tmp_path / "copy") as url:
        async with past_the_client(url) as connection:
            await live.set_limit(connection, "max_msgs", 20)
        with pytest.raises(StreamMismatch, match="max_msgs is 20"):
            await verdict_on(url, None)
        key = ["--key", PUBLIC, "--witness", f"file:{recorded.folder / WITNESS}"]
        told = await call("verify", "--nats", url, *key)
        assert (told.code, "max_msgs is 20 and must be -1" in told.err) == (1, True)
        async with past_the_client(url) as connection:
            await live.set_limit(connection, "max_msgs", -1)
        told = await call("verify", "--nats", url, *key)
        assert told.code == 1
        assert f"sequence 1 to {len(recorded.messages) - 20}: sequences 1 to" in told.out


async def test_what_the_command_says(recorded: Recorded, tmp_path: Path) -> None:
    key = ["--key", PUBLIC, "--witness", f"file:{recorded.folder / WITNESS}"]
    head = len(recorded.messages)
    async with recorded.restored(tmp_path / "clean") as url:
        told = await call("verify", "--nats", url, *key)
        assert (told.code, told.err) == (0, "")
        assert told.out.endswith(
            f"signed up to sequence {head} by head 4 of 2023-11-14 22:13:20 UTC: nothing is wrong\n"
        )
        (summary,) = (await call("verify", "--run", "one", "--json", "--nats", url, *key)).lines
        assert (summary["good"], summary["findings"], summary["run"], summary["runs"]) == (True, 0, "one", 1)
        wrong = await call("verify", "--nats", url, "--witness", "file:x")
        assert (wrong.code, "--witness and --key go together" in wrong.err) == (2, True)
    seq = recorded.sequences(".fact.two")[1]
    async with recorded.restored(tmp_path / "copy", attacks.bit_flipped(recorded, seq).do) as url:
        told = await call("verify", "--json", "--nats", url, *key)
        finding, summary = told.lines
        assert told.code == 1
        assert (finding["seq"], finding["run"], finding["version"]) == (seq, "two", recorded.places[seq].version)
        assert (summary["good"], summary["findings"], summary["signed"]["seq"]) == (False, 1, head)
        alone = await call("verify", "--nats", url)
        assert alone.code == 1
        assert f"sequence {seq}, run two, event {recorded.places[seq].version}: the message is missing" in alone.out
        assert "no head of a notary vouches for its end: 1 thing wrong" in alone.out


READ_PATHS = {
    "show": ["show", "two"],
    "why": ["why", "two", "seen.x"],
    "watch": ["watch", "two"],
    "rebuild": ["rebuild", "two"],
    "rebuild --check": ["rebuild", "two", "--check"],
    "rebuild --all": ["rebuild", "--all"],
    "replay": ["replay", "two"],
    "replay --all": ["replay", "--all"],
    "export": ["export", "two", "out.jsonl"],
    "export --all": ["export", "--all", "out.jsonl"],
    "verify": ["verify"],
    "verify --run": ["verify", "--run", "two"],
}


@pytest.mark.parametrize("how", ["dropped", "flipped"])
async def test_every_read_path_names_the_event(recorded: Recorded, tmp_path: Path, how: str) -> None:
    """A fact message in the middle of a run is gone, or one digit of it is another one, which breaks the chain after
    it."""
    seq = recorded.sequences(".fact.two")[1]
    version = recorded.places[seq].version
    following = recorded.places[recorded.sequences(".fact.two")[2]].version
    attack = attacks.dropped(recorded, seq, seq)
    if how == "flipped":
        data = recorded.message(seq).data
        at = data.rindex(b'"confidence":0.5') + len(b'"confidence":0.')
        attack = attacks.data_changed(recorded, seq, data[:at] + b"6" + data[at + 1 :])
    async with recorded.restored(tmp_path / "copy", attack.do) as url:
        words = [[*words, "--nats", url] for words in READ_PATHS.values()]
        told = await call_each([[str(tmp_path / w) if w == "out.jsonl" else w for w in one] for one in words])
    events = [following] if how == "flipped" else [version, following]
    expected = [f"{name} {event}" for event in events for name in ("run two, event", "two  event")]
    expected += [f"log damaged at sequence {seq}"] if how == "dropped" else []
    silent = {
        name: one
        for name, one in zip(READ_PATHS, told, strict=True)
        if one.code != 1 or not any(words in one.out + one.err for words in expected)
    }
    assert silent == {}
