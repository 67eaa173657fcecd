"""Attacks on what belongs to others, with valid credentials on a live server: reading their tasks, speaking under their
names, making consumers, and breaking the protocol. Each fails and stores nothing."""

import itertools
import json
import time
from collections.abc import Awaitable, Callable

import pytest

from blackboard.access import SMALL_PAYLOAD_BYTES
from blackboard.jetstream import attach
from blackboard.log import Append, NotPermitted
from blackboard.queue import Entry, TaskKey
from blackboard.server_files import MAX_PAYLOAD_BYTES
from schemas.access import API, API_OF_AGENTS, Role
from tests.access.attacking import ATTACKERS, SUBJECTS, Aims, Ground, Planted, Shot
from tests.access.matrix import OTHER, OWN
from tests.access.raw import Raw
from tests.plugins.figures import Figures

WITHOUT_NOISE_MS = 500
"""A refusal takes less than 100 ms; this much on a machine that does other things too. The shortest timeout is 1 s."""


@pytest.mark.parametrize("role", ATTACKERS)
async def test_nobody_sees_or_takes_the_tasks_of_another(field: Ground, role: Role) -> None:
    pull = b'{"batch":5,"no_wait":true}'
    task = SUBJECTS.task(OTHER, "r1", f"{OTHER}-1", 1)
    verbs = [
        (f"CONSUMER.MSG.NEXT.TASKS_main.{OTHER}", pull),
        (f"CONSUMER.INFO.TASKS_main.{OTHER}", b""),
        ("CONSUMER.LIST.TASKS_main", b""),
        ("CONSUMER.NAMES.TASKS_main", b""),
        (f"DIRECT.GET.TASKS_main.{task}", b""),
        ("DIRECT.GET.TASKS_main", json.dumps({"last_by_subj": task}).encode()),
        ("STREAM.MSG.GET.TASKS_main", json.dumps({"last_by_subj": task}).encode()),
        ("STREAM.MSG.DELETE.TASKS_main", b'{"seq":1}'),
        ("STREAM.SNAPSHOT.TASKS_main", b'{"deliver_subject":"_INBOX.x"}'),
    ]
    wanted = [
        SUBJECTS.tasks,
        SUBJECTS.tasks_of(OTHER),
        task,
        SUBJECTS.cancels_of(OTHER),
        ">",
        "bb.>",
        "$JS.>",
        "_INBOX.>",
    ]
    wanted += [f"{one} queue" for one in (SUBJECTS.tasks, SUBJECTS.cancels_of(OTHER))]
    before = await field.look()
    heard: list[str] = []

    async def hear(message: object) -> None:
        heard.append(str(message))

    async with field.attacker(role) as attacker, field.attacker(Role.SPECIALIST, OTHER) as other:
        for one in wanted:
            subject, _, queue = one.partition(" ")
            await attacker.client.subscribe(subject, queue=queue, cb=hear)
        theirs = await other.client.subscribe(SUBJECTS.cancel(OTHER, "*", "*"))
        await other.client.flush()
        shots = [
            Shot(api + verb, body, f"{attacker.inbox}.got.x") for api in (API, API_OF_AGENTS) for verb, body in verbs
        ]
        await attacker.fire(shots)
        await field.admin.publish(SUBJECTS.cancel(OTHER, "r1", "work"), b"1")
        assert (await theirs.next_msg(timeout=2)).data == b"1"
        await field.unharmed(before)
        await attacker.client.flush()
        allowed = [shot.subject for shot in shots if not attacker.refused(shot.subject)]
        unrefused = [one for one in wanted if not attacker.refused(one.partition(" ")[0])]
        assert (heard, attacker.got, allowed, unrefused) == ([], [], [], [])


@pytest.mark.parametrize("role", ATTACKERS)
async def test_nobody_makes_a_consumer(field: Ground, role: Role, figures: Figures) -> None:
    """Which would deliver where its maker says."""
    before = await field.look()
    config = {"deliver_subject": SUBJECTS.fact("r1"), "ack_policy": "none", "deliver_policy": "all"}
    durable = {"durable_name": OWN, "ack_policy": "explicit", "deliver_policy": "all"}
    shots = []
    async with field.attacker(role) as attacker:
        for api, stream in itertools.product((API, API_OF_AGENTS), ("BOARD_main", "TASKS_main", "BLOB_main")):
            for form in (
                "CREATE.{0}",
                "CREATE.{0}.c",
                "CREATE.{0}.c.bb.main.>",
                "CREATE.{0}.c.>",
                "DURABLE.CREATE.{0}.c",
            ):
                for one in (config, durable | {"durable_name": "c"}, config | {"direct": True, "name": "c"}):
                    body = json.dumps({"stream_name": stream, "config": one, "action": ""}).encode()
                    shots.append(Shot(f"{api}CONSUMER.{form.format(stream)}", body, f"{attacker.inbox}.got.x"))
        await attacker.fire(shots)
        await field.unharmed(before)
        assert [shot.subject for shot in shots if not attacker.refused(shot.subject)] == []
        assert attacker.got == []
    figures.say(f"consumers that a {role} tried to make: {len(shots)}, made: 0")


NAMES = (
    OTHER, "Own", "OWN", "own ", "\town", "own\x00", "öwn", "ow\u200bn", "own\x7f", "\u043ewn", "*", ">", "own.*",
    "own.>", "", "own.", ".own", "$own", "..", "own/../other", "own%2E", f"own.r1.{OTHER}", "own.r1.key.1.1",
)  # fmt: skip
"""Other authors, and the attacker's own name as a careless reader or server might take it. One begins with a Cyrillic
letter; a byte 127 is one that JetStream cannot index."""


@pytest.mark.parametrize(
    ("role", "family"),
    [(Role.SPECIALIST, "obs"), (Role.SPECIALIST, "blob"), (Role.PUBLISHER, "goal"), (Role.APPROVER, "signal")],
)
async def test_nobody_speaks_under_another_name(field: Ground, url: str, role: Role, family: str) -> None:
    """What the server takes all the same has the attacker's name where names stand; and a run that is none, which
    readers pass over."""
    before = await field.look()
    tails = {"blob": ("r1.1",)}.get(family, ("r1", "*", ">", "r1 reply", "ünï", "r*1", "r\x7f", "*.*.*", "r1.>.1"))
    own = f"bb.main.{family}.{OWN}.{tails[0]}"
    subjects = [own] + [f"bb.main.{family}.{name}.{tail}" for name in NAMES for tail in tails]
    subjects += [f"{prefix}.main.{family}.own.r1" for prefix in ("BB", "Bb", "*", ">", "$bb", "bb.main")]
    subjects += [f"bb.{board}.{family}.own.r1" for board in ("*", "MAIN", "foreign", ">")]
    subjects += [f"bb.main.{other}.own.r1" for other in (family.upper(), "*", "wake", "fact", "lead", "task")]
    for subject in subjects:
        async with Raw.connected(url, field.access.credentials([role], [OWN])) as raw:
            await raw.publish(subject.encode(), b"spoofed")
    after = await field.look()
    mine = f"bb.main.{family}.{OWN}."
    planted = await field.planted(before, after)
    assert own in [one.subject for one in planted]
    assert [one for one in planted if not one.subject.startswith(mine)] == []
    for one in planted:
        address = SUBJECTS.address(one.subject)
        assert address is None or address.author == OWN
    await field.unharmed(before, but=planted)


@pytest.mark.parametrize(
    ("role", "limit"), [(Role.PUBLISHER, SMALL_PAYLOAD_BYTES), (Role.SPECIALIST, MAX_PAYLOAD_BYTES)]
)
async def test_nothing_larger_than_its_limit_is_taken_from_an_identity(
    field: Ground, url: str, role: Role, limit: int
) -> None:
    subject = {Role.PUBLISHER: SUBJECTS.goal(OWN, "r8"), Role.SPECIALIST: SUBJECTS.observation(OWN, "r8")}[role]
    credentials = field.access.credentials([role], [OWN])
    before = await field.look()
    for line in (
        b"PUB %b %d\r\n%b\r\n" % (subject.encode(), limit + 1, bytes(limit + 1)),
        b"HPUB %b 12 %d\r\nNATS/1.0\r\n\r\n%b\r\n" % (subject.encode(), limit + 1, bytes(limit + 1 - 12)),
        b"PUB %b 2147483647\r\nx\r\n" % subject.encode(),
        b"PUB %b -1\r\nx\r\n" % subject.encode(),
        b"PUB %b 99999999999999999999\r\nx\r\n" % subject.encode(),
    ):
        async with Raw.connected(url, credentials) as raw:
            assert not await raw.say(line)
    await field.unharmed(before)
    async with Raw.connected(url, credentials) as raw:
        assert await raw.publish(subject.encode(), bytes(limit)), raw.said
    await field.unharmed(before, but=[Planted(subject, bytes(limit))])


async def test_a_client_that_breaks_the_protocol_reaches_nobody_but_itself(field: Ground, url: str, aims: Aims) -> None:
    """Flow control and acknowledgements of others, as subject and as reply; headers that are none; verbs of servers;
    account and origin that a client may not name."""
    own, fact = SUBJECTS.observation(OWN, "r9").encode(), SUBJECTS.fact("r9").encode()
    flow = b"$JS.FC.BOARD_main.reader.abc"
    attempts = [
        b"PUB %b 0\r\n\r\n" % flow,
        b"PUB %b %b 1\r\nx\r\n" % (flow, fact),
        b"PUB %b %b 1\r\n1\r\n" % (own, flow),
        b"PUB %b %b 1\r\n2\r\n" % (own, aims.ack.encode()),
        b"PUB %b 4\r\n+ACK\r\n" % aims.ack.encode(),
        b"PUB %b %b 4\r\n+NXT\r\n" % (aims.ack.encode(), own),
        b"PUB $JS.ACK.TASKS_main.own.1.1.1.1.0 %b 4\r\n+NXT\r\n" % fact,
        b"PUB %b %b 1\r\n3\r\n" % (own, b"$JS.API.STREAM.DELETE.BOARD_main"),
        b"PUB %b _R_.x.y 1\r\n4\r\n" % own,
        b"PUB _R_.x.y 1\r\nx\r\n",
        b"PUB _GR_.x.y 1\r\nx\r\n",
        b"PUB $GNR.x 1\r\nx\r\n",
        b"HPUB %b 10 11\r\nNATS/1.0\r\nx\r\n" % own,
        b"HPUB %b 36 37\r\nNATS/1.0 100 FlowControl Request\r\n\r\nx\r\n" % own,
        b"HPUB %b 5 3\r\nNATS/\r\n" % own,
        b"RMSG BUS %b 1\r\nx\r\n" % fact,
        b"LMSG %b 1\r\nx\r\n" % fact,
        b"HMSG %b 12 13\r\nNATS/1.0\r\n\r\nx\r\n" % fact,
        b"MSG %b 1 1\r\nx\r\n" % fact,
        b"A+ BUS\r\n",
        b"RS+ BUS >\r\n",
        b"LS+ >\r\n",
        b"SUB > 1\r\n",
        b"SUB %b 1\r\n" % flow,
        b"SUB $JS.FC.> 2\r\n",
        b"SUB _R_.> 3\r\n",
        b"SUB $JS.ACK.> 4\r\n",
        b"PUB %b.\xff\xfe 1\r\nx\r\n" % SUBJECTS.fact("r9").encode(),
        b"PUB %b\x00 1\r\nx\r\n" % fact,
        b"pub %b 1\r\nx\r\n" % fact,
        b"CONNECT {\"account\":\"BUS\",\"new_account\":true,\"user\":\"admin\"}\r\nPUB %b 1\r\nx\r\n" % fact,
    ]  # fmt: skip
    before = await field.look()
    for attempt in attempts:
        async with Raw.connected(url, field.access.credentials([Role.SPECIALIST], [OWN])) as raw:
            await raw.say(attempt)
    after = await field.look()
    planted = await field.planted(before, after)
    assert [one for one in planted if one.subject.encode() != own] == []
    await field.unharmed(before, but=planted)


async def test_a_refusal_through_our_own_client_is_an_error_at_once(field: Ground, figures: Figures) -> None:
    """Which names the subject and the identity."""
    slowest_ms = 0.0
    before = await field.look()
    async with field.connected(Role.SPECIALIST) as connection:
        log, queue, _, _ = await attach(connection, SUBJECTS)
        fact, theirs = SUBJECTS.fact("r1"), SUBJECTS.observation(OTHER, "r1")
        next_ = f"CONSUMER.MSG.NEXT.TASKS_main.{OTHER}"
        tried: list[tuple[str, Callable[[], Awaitable[object]]]] = [
            (fact, lambda: connection.request(fact, b"x")),
            (fact, lambda: log.append(Append(fact, b"x", expected=0))),
            (theirs, lambda: log.append(Append(theirs, b"x"))),
            (theirs, lambda: log.append(*[Append(theirs, b"x")] * 30)),
            (next_, lambda: queue.pull(OTHER, 5)),
            (SUBJECTS.task(OWN, "r1", "t", 1), lambda: queue.put([Entry(TaskKey(OWN, "r1", "t", 1), b"x")])),
        ]
        for subject, attempt in tried:
            for _ in range(50):
                began = time.perf_counter()
                with pytest.raises(NotPermitted) as refused:
                    await attempt()
                slowest_ms = max(slowest_ms, (time.perf_counter() - began) * 1000)
                assert subject in str(refused.value)
                assert "specialist own" in str(refused.value)
    await field.unharmed(before)
    figures.say(f"refusals through our own client: {50 * len(tried)}, the slowest after {slowest_ms:.1f} ms")
    assert slowest_ms < WITHOUT_NOISE_MS
