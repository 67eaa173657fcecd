"""What is said on core NATS, in the account of all who are no supervisors: specialists hear their cancels and readers
who is active, and nobody else can have them hear anything."""

import asyncio
import json
from collections.abc import AsyncIterator

import pytest

from blackboard.access import SUBSCRIPTIONS
from blackboard.jetstream import attach
from blackboard.log import LogUnavailable, NotPermitted
from blackboard.nats_connection import Listener
from blackboard.nats_heard import SAID
from blackboard.queue import TaskKey
from schemas.access import Role
from schemas.announcements import Announcement, encode_announcement
from tests.access.attacking import SUBJECTS, Aims, Ground, Shot
from tests.access.matrix import OTHER, OWN

PATIENCE_S = 10
FORGED = encode_announcement(Announcement("mallory", "log", "active", 9, 9, 1))
TRUE = encode_announcement(Announcement("ann", "log", "active", 1, 1, 1))
GET = f"$JS.bus.API.DIRECT.GET.{SUBJECTS.blob_stream}"


async def _first(heard: AsyncIterator[object]) -> object:
    async with asyncio.timeout(PATIENCE_S):
        return await anext(heard)


async def test_a_specialist_hears_the_cancels_of_its_tasks(field: Ground, aims: Aims) -> None:
    async with field.connected(Role.SPECIALIST, OTHER) as specialist, field.connected(Role.SUPERVISOR) as supervisor:
        (_, theirs, _, _), (_, queue, _, _) = await attach(specialist, SUBJECTS), await attach(supervisor, SUBJECTS)
        heard = theirs.cancels(OTHER)
        await asyncio.sleep(0)
        await specialist.client.flush()
        await queue.cancel(TaskKey(OTHER, "r1", "work", 1))
        assert await _first(heard) == TaskKey(OTHER, "r1", "work", 1)


async def test_whoever_may_not_hear_is_told_so(field: Ground, aims: Aims) -> None:
    async with field.connected(Role.SPECIALIST) as connection:
        _, queue, _, _ = await attach(connection, SUBJECTS)
        with pytest.raises(NotPermitted, match=rf"specialist {OWN} .* may not subscribe to .*cancel\.{OTHER}"):
            await _first(queue.cancels(OTHER))


@pytest.mark.parametrize("role", [Role.SPECIALIST, Role.PUBLISHER])
async def test_no_answer_of_the_server_is_taken_for_what_a_supervisor_says(
    field: Ground, aims: Aims, role: Role
) -> None:
    """An answer goes to whatever subject it is asked for, and its bytes may be those of a blob or a goal. With headers
    that were stored, or with none (`no_hdr`)."""
    async with (
        field.connected(Role.SPECIALIST, OTHER) as specialist,
        field.connected(Role.AUDITOR) as auditor,
        field.connected(Role.SUPERVISOR) as supervisor,
        field.attacker(role) as attacker,
    ):
        _, theirs, _, _ = await attach(specialist, SUBJECTS)
        _, queue, _, _ = await attach(supervisor, SUBJECTS)
        announcements = (await attach(auditor, SUBJECTS)).announcements
        cancels, leads = theirs.cancels(OTHER), announcements.heard()
        got = list[str]()

        async def note(message: object) -> None:
            got.append(str(message))

        await auditor.listen(SUBJECTS.lead, note)
        await asyncio.sleep(0)
        await asyncio.gather(specialist.client.flush(), auditor.client.flush())
        shots = list[Shot]()
        for data, aim in ((b"1", SUBJECTS.cancel(OTHER, "r1", "work")), (FORGED, SUBJECTS.lead)):
            for n, headers in enumerate((None, SAID, SAID | {"Nats-Msg-Id": "x"})):
                own = SUBJECTS.blob(OWN, "f" * 64, f"{len(data)}{n}")
                stream = GET
                if role is Role.PUBLISHER:
                    own, stream = SUBJECTS.goal(OWN, f"core-{len(data)}-{n}"), GET.replace("BLOB", "BOARD")
                await attacker.client.request(own, data, headers=headers, timeout=2)
                shots += [
                    Shot(stream, json.dumps({"last_by_subj": own} | more).encode(), aim)
                    for more in ({}, {"no_hdr": True})
                ]
                shots.append(Shot(stream, json.dumps({"multi_last": [own], "batch": 1}).encode(), aim))
        await attacker.fire(shots)
        await field.look()
        await queue.cancel(TaskKey(OTHER, "r1", "true", 2))
        await (await attach(supervisor, SUBJECTS)).announcements.announce(TRUE)
        assert await _first(cancels) == TaskKey(OTHER, "r1", "true", 2)
        assert await _first(leads) == TRUE
        assert len(got) > len(shots) / 2 - 1  # the answers did come


async def test_whoever_listens_to_too_much_is_told_so_and_keeps_the_connection(field: Ground, aims: Aims) -> None:
    """The server would drop it, and all who read over it at the same time."""
    async with field.connected(Role.AUDITOR) as connection:
        listeners = list[Listener]()

        async def hear(_: object) -> None: ...

        while len(connection.client._subs) < SUBSCRIPTIONS + 8:
            listeners.append(await connection.listen(SUBJECTS.lead, hear))
        with pytest.raises(LogUnavailable, match=rf"may have {SUBSCRIPTIONS + 8} subscriptions at once"):
            await connection.listen(SUBJECTS.lead, hear)
        await connection.client.flush()
        log = (await attach(connection, SUBJECTS)).log
        assert await log.head() > 0
        await listeners.pop().close()
        listeners.append(await connection.listen(SUBJECTS.lead, hear))
        await connection.client.flush()
        assert connection.is_up
