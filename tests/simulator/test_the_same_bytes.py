"""One seed, one log: every byte of it, in any process, whatever ran before."""

import asyncio
import gc
import os
import subprocess
import sys
from pathlib import Path

import pytest

from blackboard.testing import random_simulation
from tests.simulator.team import simulation

ROOT = Path(__file__).parents[2]
SEEDS = 12


def command(*arguments: str, hash_seed: str = "random") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "blackboard.testing", *arguments],
        cwd=ROOT,
        env=os.environ | {"PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        timeout=200,
    )


@pytest.mark.timeout(300)
def test_same_seeds_in_other_processes_give_the_same_digests() -> None:
    printed = [
        command("--seeds", str(SEEDS), "--digests", "--jobs", "1").stdout,
        command("--seeds", str(SEEDS), "--digests", "--jobs", "1").stdout,
        command("--seeds", str(SEEDS), "--digests", "--jobs", "1", hash_seed="0").stdout,
    ]
    lines = [[line for line in text.splitlines() if line.startswith("seed ")] for text in printed]
    assert len(lines[0]) == SEEDS
    assert lines[0] == lines[1] == lines[2]
    assert len({line.split()[-1] for line in lines[0]}) == SEEDS
    (alone,) = [line for line in command("--seed", "7").stdout.splitlines() if line.startswith("seed ")]
    assert alone == lines[0][7]


def test_what_ran_before_does_not_matter() -> None:
    first = [random_simulation(seed).run().digest for seed in (3, 4, 5)]
    gc.disable()
    try:
        backwards = [random_simulation(seed).run().digest for seed in (5, 4, 3)]
    finally:
        gc.enable()
    assert backwards == first[::-1]


async def test_event_loop_around_it_does_not_matter() -> None:
    world = simulation(seed=11)
    inside = world.run()
    assert inside.digest == (await asyncio.to_thread(world.run)).digest
    assert inside.duration_s > 0


def test_digest_covers_every_message_time_and_header() -> None:
    from msgspec.structs import replace

    from blackboard.simulation.report import log_digest

    messages = list(simulation(seed=1).run().messages)
    digest = log_digest(messages)
    changes = (
        {"time_ms": messages[4].time_ms + 1},
        {"data": messages[4].data + b" "},
        {"subject": messages[4].subject + "x"},
        {"headers": {"writer": "somebody"}},
        {"seq": 99},
    )
    for change in changes:
        assert log_digest([*messages[:4], replace(messages[4], **change), *messages[5:]]) != digest
    assert log_digest(messages[:-1]) != digest
    assert log_digest([*messages[:4], messages[5], messages[4], *messages[6:]]) != digest
