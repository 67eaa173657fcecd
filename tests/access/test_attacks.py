"""Attacks with valid credentials on a live server: each fails and stores nothing.

What the identity may store anyway, it stores on its own subject: then that is there and nothing else.
"""

import hashlib
import itertools
import json
import time
from collections.abc import Sequence

import pytest

from blackboard import jetstream_wire as wire
from blackboard.jetstream import attach
from blackboard.jetstream_append import BATCH_FROM
from blackboard.log import Append, Stored
from blackboard.queue import Entry, TaskKey
from schemas.access import RULES, Role, Rule
from schemas.subjects import matches
from tests.access.attacking import ATTACKERS, CHOSEN, SUBJECTS, Aims, Ground, Planted, Shot, granted, targets
from tests.access.matrix import OTHER, OWN
from tests.plugins.figures import Figures

TOO_MANY_BATCHES = 10210
REFUSED = ("Nats-Rollup", "Nats-TTL", "Nats-Schedule", "Nats-Incr", "Nats-Trace-Dest", "Nats-Expected-Last-Msg-Id")
"""Headers with which no message is stored, whoever's subject it is for: it would remove or write another one, or itself
go away."""
RESERVED = ("_R_.", "$JS.ACK.")
"""Reply subjects that the server takes from nobody."""


def _stored_by(shots: Sequence[Shot]) -> list[Planted]:
    """What of these an identity stores, as it may, under its own name; a part of a blob once."""
    log = [f"bb.main.{one}.>" for one in ("goal", "signal", "obs", "contract", "playbook")]
    parts = {one.subject: Planted(one.subject, one.data) for one in shots if one.subject.startswith("bb.main.blob.")}
    told = [one for one in shots if not one.reply.startswith(RESERVED)]
    return [
        *(Planted(one.subject, one.data) for one in told if any(matches(pattern, one.subject) for pattern in log)),
        *parts.values(),
    ]


def _forged(role: Role, aims: Aims, rules: Sequence[Rule] = RULES) -> list[Shot]:
    """Every verb that the role was granted, with every reply subject that would do harm; and blobs whose bytes the
    attacker chose, asked for with the same."""
    asked = list(granted(role, OWN, aims.ack, rules))
    api = next((subject for subject, _ in asked if "DIRECT.GET.BLOB" in subject), "")
    if api:
        parts = [SUBJECTS.blob(OWN, digest, 1) for digest in aims.blobs.values()]
        asked += [(api, json.dumps({"last_by_subj": part}).encode()) for part in parts]
        asked += [(api, json.dumps({"multi_last": [part], "batch": 1}).encode()) for part in parts]
    return [Shot(subject, body or b"mine", target) for target in targets(aims, OWN) for subject, body in asked]


@pytest.mark.parametrize("role", ATTACKERS)
async def test_no_answer_of_the_server_goes_where_an_attacker_wants(
    field: Ground, aims: Aims, role: Role, figures: Figures
) -> None:
    shots = _forged(role, aims)
    before = await field.look()
    async with field.attacker(role) as attacker:
        await attacker.fire(shots)
        await field.unharmed(before, but=_stored_by(shots))
    figures.say(f"forged replies of a {role}: {len(shots)}, of them stored: 0")


async def test_in_the_account_of_the_streams_the_same_attacks_work(field: Ground, aims: Aims) -> None:
    """That the tests of this module can see what they look for: one that may do no more than a specialist, but is not
    kept apart, has the server write what it chose as a fact, a wake and in another's name."""
    rules = tuple(one._replace(roles=frozenset({Role.ADMIN})) for one in RULES if Role.SPECIALIST in one.roles)
    aimed_at = {
        SUBJECTS.fact("r1"),
        SUBJECTS.wake("r1"),
        SUBJECTS.observation(OTHER, "r1"),
        SUBJECTS.signal("bob", "r1"),
    }
    before = await field.look()
    async with field.attacker(Role.ADMIN, rules=rules) as attacker:
        await attacker.fire([one for one in _forged(Role.ADMIN, aims, rules) if one.reply in aimed_at])
        planted = await field.planted(before, await field.look())
    assert {one.subject for one in planted if one.data == CHOSEN[0]} == aimed_at
    with pytest.raises(AssertionError):
        await field.unharmed(before)


def _headers(aims: Aims) -> list[dict[str, str]]:
    """Headers that tell a stream to do more than to store."""
    fact = SUBJECTS.fact("r1")
    found = [
        {"Nats-Rollup": "sub"},
        {"Nats-Rollup": "all"},
        {"Nats-TTL": "1s"},
        {"Nats-TTL": "never"},
        {"Nats-Schedule": "@every 1s", "Nats-Schedule-Target": fact},
        {"Nats-Schedule": "@at 2020-01-01T00:00:00Z", "Nats-Schedule-Target": fact, "Nats-Schedule-Source": fact},
        {"Nats-Schedule-Next": "purge", "Nats-Scheduler": fact},
        {"Nats-Incr": "+1"},
        {"Nats-Expected-Stream": SUBJECTS.blob_stream},
        {"Nats-Expected-Last-Sequence": "1"},
        {"Nats-Expected-Last-Subject-Sequence": "99999", "Nats-Expected-Last-Subject-Sequence-Subject": fact},
        {"Nats-Expected-Last-Subject-Sequence": "0", "Nats-Expected-Last-Subject-Sequence-Subject": "bb.main.wake.r77"},
        {"Nats-Expected-Last-Msg-Id": "x"},
        {"Nats-Batch-Id": "b1", "Nats-Batch-Sequence": "1", "Nats-Batch-Commit": "1", "Nats-Rollup": "all"},
        {"Nats-Fast-Batch-Id": "b1", "Nats-Batch-Sequence": "1"},
        {"Nats-Sequence": "2", "Nats-Subject": fact, "Nats-Stream": SUBJECTS.log_stream, "Nats-Time-Stamp": "x"},
        {"Nats-Marker-Reason": "Purge", "KV-Operation": "PURGE"},
        {"Nats-Stream-Source": "BOARD_main 1 > >", "Nats-Last-Sequence": "0"},
        {"Nats-Request-Info": "{}", "Nats-Required-Api-Level": "99"},
        {"Nats-Trace-Dest": fact, "Nats-Trace-Only": "true"},
        {"Nats-Trace-Dest": fact},
        {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "Nats-Trace-Dest": aims.ack},
        {"Status": "100", "Description": "FlowControl Request"},
    ]  # fmt: skip
    return found


@pytest.mark.parametrize("role", ATTACKERS)
async def test_no_header_makes_the_server_do_more_than_store(
    field: Ground, aims: Aims, role: Role, figures: Figures
) -> None:
    """On every subject on which the identity may publish. What is acknowledged as stored stands there as it was said,
    the rest nowhere."""
    before = await field.look()
    acknowledged, taken = list[Planted](), set[str]()
    async with field.attacker(role) as attacker:
        shots = [
            Shot(subject, f"{n}".encode(), f"{attacker.inbox}.got.{n}", headers)
            for n, (headers, subject) in enumerate(
                itertools.product(_headers(aims), sorted({subject for subject, _ in granted(role, OWN, aims.ack)}))
            )
        ]
        await attacker.fire(shots)
        await field.look()
        await attacker.client.flush()
        for message in attacker.got:
            if message.data.startswith(b"{") and "seq" in (said := json.loads(message.data)) and "error" not in said:
                shot = shots[int(message.subject.rpartition(".")[2])]
                acknowledged.append(Planted(shot.subject, shot.data))
                taken.add(str(shot.headers))
        await field.unharmed(before, but=acknowledged)
    assert len(attacker.got) > 0
    assert not [headers for headers in taken if any(name in headers for name in REFUSED)]
    figures.say(f"headers of a {role}: {len(shots)}, stored under its own name: {len(acknowledged)}, elsewhere: 0")


async def test_an_id_that_was_used_by_an_attacker_takes_nothing_from_the_supervisor(field: Ground) -> None:
    """The window in which a stream takes messages with equal ids for one is the same for all who write to it: the log
    takes no ids from a supervisor, and in the queue nobody else has one."""
    ids = [f"r5.work.{attempt}" for attempt in (1, 2)] + [
        "r5",
        SUBJECTS.fact("r5"),
        "1",
        hashlib.sha256(b"fact").hexdigest(),
    ]
    before = await field.look()
    shots = [Shot(SUBJECTS.observation(OWN, "r5"), one.encode(), "", {"Nats-Msg-Id": one}) for one in ids]
    onto_queue = [Shot(SUBJECTS.task(OTHER, "r5", "work", 1), b"mine", "", {"Nats-Msg-Id": ids[0]})]
    async with field.attacker(Role.SPECIALIST) as attacker, field.connected(Role.SUPERVISOR) as connection:
        await attacker.fire(shots + onto_queue)
        log, queue, _, _ = await attach(connection, SUBJECTS)
        (stored,) = await log.append(Append(SUBJECTS.fact("r5"), b"fact", expected=0))
        await queue.put([Entry(TaskKey(OTHER, "r5", "work", 1), b"task")])
        await field.look()
        assert attacker.refused(onto_queue[0].subject)
    assert isinstance(stored, Stored)
    answer = await field.admin.api("STREAM.MSG.GET.BOARD_main", {"seq": stored.seq})
    assert "Nats-Msg-Id" not in wire.stored_headers(answer)
    fact, task = Planted(SUBJECTS.fact("r5"), b"fact"), Planted(SUBJECTS.task(OTHER, "r5", "work", 1), b"task")
    await field.unharmed(before, but=[*(Planted(one.subject, one.data) for one in shots), fact, task])


async def test_all_open_batches_of_the_log_taken_by_one_leave_the_others_at_work(
    field: Ground, figures: Figures
) -> None:
    """The server has 50 for a stream. Whoever gets none appends message by message."""
    before = await field.look()
    shots = [
        Shot(SUBJECTS.observation(OWN, "r6"), b"open", "", {"Nats-Batch-Id": f"hold-{n}", "Nats-Batch-Sequence": "1"})
        for n in range(60)
    ]
    async with (
        field.attacker(Role.SPECIALIST) as attacker,
        field.connected(Role.SUPERVISOR) as supervisor,
        field.connected(Role.SPECIALIST, OTHER) as specialist,
    ):
        await attacker.fire(shots)
        await field.look()
        headers = {"Nats-Batch-Id": "one-more", "Nats-Batch-Sequence": "1"}
        refused = await attacker.client.request(SUBJECTS.observation(OWN, "r6"), b"open", headers=headers, timeout=2)
        assert json.loads(refused.data)["error"]["err_code"] == TOO_MANY_BATCHES
        facts = [Append(SUBJECTS.fact(f"r6-{n}"), b"fact", expected=0) for n in range(2 * BATCH_FROM)]
        began = time.perf_counter()
        log, _, _, _ = await attach(supervisor, SUBJECTS)
        outcomes = await log.append(*facts)
        ended = Append(SUBJECTS.observation(OTHER, "r6"), b"end")
        others, _, _, _ = await attach(specialist, SUBJECTS)
        outcomes += await others.append(*[ended] * (2 * BATCH_FROM))
        took_ms = (time.perf_counter() - began) * 1000
    assert all(isinstance(one, Stored) for one in outcomes)
    said = [*facts, *[ended] * (2 * BATCH_FROM)]
    await field.unharmed(before, but=[Planted(one.subject, one.data) for one in said])
    figures.say(f"appends while an attacker holds all batches: {len(outcomes)} stored, {took_ms:.0f} ms")
    assert took_ms < 2000
