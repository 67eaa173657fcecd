"""A secured server with a board on it, a supervisor, honest workers under their own credentials, and zed: a specialist
with valid credentials, whose code is an attacker's. He has a plain client, and says what he likes where he may.
"""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
from nats.aio.client import Client as Raw
from nats.aio.client import RawCredentials
from nats.errors import NoRespondersError
from nats.errors import TimeoutError as Late

from blackboard.access import Access
from blackboard.board import Board, open_board
from blackboard.client import Client
from blackboard.server import EmbeddedServer
from blackboard.testing import ScriptedSpecialist
from projections.history import Folded
from projections.live import follow
from projections.rebuild import history
from schemas import events as e
from schemas.access import API_OF_AGENTS, Role
from schemas.playbooks import Playbook
from schemas.subjects import BOARD_RUN, Subjects
from schemas.tasks import Task, decode_task
from specialists.worker import Timing, Worker
from supervisor.service import Supervisor
from tests.simulator.team import PLAYBOOK, total

ZED = "zed"
WITHIN_S = 20.0
GOALS = [{"n": [1, 2, 3]}, {"n": [5]}, {"n": [7, 8]}, {"n": [2, 2, 2, 2]}]
HONEST = (
    ScriptedSpecialist("reader", "read", answers=lambda item: item["x"] ** 2, tokens=10),
    ScriptedSpecialist("summer", "sum", answers=total, tokens=4),
)
HIS = ScriptedSpecialist(ZED, "bait", output=int, attempts=2, backoff_s=0.0, deadline_s=1.0)
BAIT = Playbook.model_validate(
    {
        "team": "bait",
        "steps": [
            {
                "id": "bait",
                "capability": "bait",
                "fact": "bait",
                "missing": "allow",
                "wait_s": 1,
                "input": {"x": "input.x"},
            }
        ],
        "returns": {"bait": "facts.bait"},
    }
)


class Zed:
    """What he can do with his credentials: append under his name, and take and acknowledge his tasks."""

    def __init__(self, client: Raw, subjects: Subjects) -> None:
        self._client, self.subjects = client, subjects
        self._number = itertools.count(1)

    async def says(self, run: str, body: Any, rest: str = "") -> int:
        """Append it to a run, below `rest` where there is one; the sequence that he gets it acknowledged with."""
        data = body if isinstance(body, bytes) else msgspec.json.encode(body)
        subject = self.subjects.observation(ZED, run) + rest
        answer = msgspec.json.decode((await self._client.request(subject, data, timeout=WITHIN_S)).data)
        assert "seq" in answer, answer
        return int(answer["seq"])

    async def floods(self, run: str, bodies: Sequence[Any]) -> None:
        """Append without waiting for anything."""
        subject = self.subjects.observation(ZED, run)
        for body in bodies:
            await self._client.publish(subject, body if isinstance(body, bytes) else msgspec.json.encode(body))
        await self._client.flush()

    def ends(self, task: str, attempt: int = 1, claims: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
        """The end of an execution of its own."""
        said = [{"key": key, "value": value} for key, value in (claims or {}).items()]
        end = {"type": "ended", "task": task, "attempt": attempt, "execution": f"zed-{next(self._number)}"}
        return end | {"usage": {"input_tokens": 7}, "claims": said} | more

    async def takes(self) -> tuple[Task, str]:
        """His next task, and where to acknowledge it."""
        subject = f"{API_OF_AGENTS}CONSUMER.MSG.NEXT.{self.subjects.task_stream}.{ZED}"
        wanted = msgspec.json.encode({"batch": 1, "expires": int(0.8e9)})
        async with asyncio.timeout(WITHIN_S):
            while True:
                with contextlib.suppress(NoRespondersError, Late):  # his place in the queue is not made yet
                    message = await self._client.request(subject, wanted, timeout=1.0, old_style=True)
                    if message.reply:
                        return decode_task(message.data), message.reply
                await asyncio.sleep(0.05)

    async def acknowledges(self, place: str) -> None:
        await self._client.publish(place, b"+ACK")
        await self._client.flush()


class Stage:
    """`board` is the administrator's, who looks on; `zed` is there once he is let in."""

    def __init__(self, url: str, access: Access, board: Board) -> None:
        self.url, self.access, self.board = url, access, board
        self.client = Client(board, "ann")
        self._open, self._stop = AsyncExitStack(), asyncio.Event()
        self._running: list[asyncio.Task[None]] = []

    @property
    def name(self) -> str:
        return self.board.subjects.board

    async def begin(self) -> None:
        """Contracts, playbooks and a supervisor."""
        for one in (*HONEST, HIS):
            await self.client.offer(one.specialist.contract())
        await self.client.teach(PLAYBOOK)
        await self.client.teach(BAIT)
        serving = await self._as(Role.SUPERVISOR, "supervisor")
        self._supervisor = Supervisor(serving, mend_s=0.3)
        self._running.append(asyncio.create_task(self._supervisor.run(self._stop)))

    async def work(self) -> None:
        """The honest workers begin."""
        working = await self._as(Role.SPECIALIST, *(one.name for one in HONEST))
        worker = Worker(working, [one.specialist for one in HONEST], drain_s=1, timing=Timing(pull_s=0.2))
        self._running.append(asyncio.create_task(worker.run(self._stop)))

    async def intruder(self) -> Zed:
        credentials = self.access.credentials([Role.SPECIALIST], [ZED], self.name)
        raw = Raw()
        await raw.connect(
            self.url,
            user_credentials=RawCredentials(credentials.text),
            inbox_prefix=credentials.inbox,
            allow_reconnect=False,
            max_reconnect_attempts=0,
        )
        self._open.push_async_callback(raw.close)
        return Zed(raw, self.board.subjects)

    async def _as(self, role: Role, *names: str) -> Board:
        credentials = self.access.credentials([role], list(names), self.name)
        return await self._open.enter_async_context(open_board(self.url, self.name, credentials=credentials))

    async def end(self) -> None:
        self._stop.set()
        await asyncio.gather(*self._running)
        await self._open.aclose()

    # -- looking on --

    async def publish(self, runs: Sequence[str]) -> None:
        for run, goal in zip(runs, itertools.cycle(GOALS)):
            await self.client.publish("t", goal, run)

    async def behind(self) -> int:
        """How many messages of the log the supervisor has not read."""
        return await self.board.log.head() - self._supervisor.position

    async def until(self, run: str, true: Any) -> Folded:
        async with asyncio.timeout(WITHIN_S), aclosing(follow(self.board, run)) as following:
            async for folded in following:
                if true(folded.state):
                    return folded
        raise AssertionError(f"run {run} has ended before that")

    async def ended(self, run: str) -> Folded:
        return await self.until(run, lambda state: state.end)

    async def events(self, run: str) -> list[e.Event]:
        return [item.event for item in (await history(self.board, run))[1]]

    async def recorded(self, run: str, seq: int) -> list[e.Event]:
        """What is recorded about the input at `seq`, in its run or in `_board`, once a supervisor has seen it."""
        async with asyncio.timeout(WITHIN_S):
            while True:
                events = [*await self.events(run), *await self.events(BOARD_RUN)]
                if found := [event for event in events if event.cause.seq == seq]:
                    return found
                await asyncio.sleep(0.02)


@asynccontextmanager
async def stages(folder: Path, *names: str) -> AsyncIterator[list[Stage]]:
    """Boards of these names on one server, each with its supervisor."""
    access = Access.init(folder / "access")
    with EmbeddedServer(folder, access.server_settings(folder / "jwt")) as server:
        async with AsyncExitStack() as stack:
            made = []
            for name in names:
                admin = access.credentials([Role.ADMIN], ["admin"], name)
                board = await stack.enter_async_context(open_board(server.url, name, create=True, credentials=admin))
                made.append(stage := Stage(server.url, access, board))
                stack.push_async_callback(stage.end)
                await stage.begin()
            yield made
