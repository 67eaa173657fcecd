"""One connection to a NATS server, with the habits that a board needs: it reconnects for ever, sends nothing late,
notices a refused publish at once, and speaks to the JetStream API in JSON.

Everything that the board asks goes through one inbox and a table of futures. nats-py's own JetStream publisher is not
used: its future never resolves on an error (nats.py issue 985), and it is slower.
"""

import asyncio
import contextlib
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec
from nats import errors
from nats.aio.client import Client, RawCredentials
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from blackboard.credentials import Credentials
from blackboard.log import LogError, LogUnavailable, NotPermitted
from blackboard.nats_answers import Answers
from blackboard.nats_dial import FastClient, dial
from blackboard.nats_errors import DOWN, Disconnected, NoResponders, refusal, status_of
from schemas.access import API, API_OF_AGENTS

ANSWER_TIMEOUT_S = 2.0
PATIENCE_S = 5.0
"""How long a request is repeated while nobody answers."""
ELECTION_PATIENCE_S = 15.0
"""The same in a cluster, whose servers take up to 9 s to notice that a leader is dead, and then elect another one."""

REFUSAL_PATIENCE_S = 30.0
"""How long a server may refuse this identity at every reconnect: one of a cluster can be without its account yet."""

_TAKEN_BACK = ("authentication revoked", "authentication expired", "authorization")
_REFUSED = re.compile(r'permissions violation for (publish|subscription) to "([^"]+)"', re.IGNORECASE)

_Call = Callable[[], None]


class Connection:
    """A connection to one board's server. Make it with `connect`."""

    def __init__(self, url: str, credentials: Credentials | None = None) -> None:
        self.url, self._credentials = url, credentials
        self.who = f"{credentials.name!r}" if credentials else "this connection"
        self._most_subscriptions = credentials.subscriptions if credentials else -1
        self.in_agents = credentials is not None and credentials.in_agents
        """Whether it is in the account that makes no consumers and reads the streams by direct gets."""
        self.last_answer_at: float = 0
        """Loop time at which the last answer to anything came."""
        self._client = FastClient()
        self._inbox = ""
        self.answers = Answers()
        self._up = asyncio.Event()
        self._refused_inbox: NotPermitted | None = None
        self._refused: NotPermitted | None = None
        self._refused_since: float | None = None
        """Loop time of the first refusal since it was connected last."""
        self._closing: asyncio.Future[None] | None = None
        self._reconnected: list[_Call] = []
        self._closed: list[_Call] = []
        self._refused_subscriptions: dict[str, Callable[[NotPermitted], None]] = {}

    # Life

    async def open(self, name: str, timeout_s: float, *, ca: str = "", **options: Any) -> None:
        """Connect and check the server; see `connect`, also for what is raised."""
        if self._credentials:
            options |= {
                "user_credentials": RawCredentials(self._credentials.text),
                "inbox_prefix": self._credentials.inbox,
            }
        await dial(
            self._client,
            self.url,
            name if self._credentials is None else self.who,
            timeout_s,
            self._on_error,
            ca=ca,
            disconnected_cb=self._on_disconnected,
            reconnected_cb=self._on_reconnected,
            closed_cb=self._on_closed,
            **options,
        )
        self._up.set()
        self._inbox = self._client.new_inbox()
        await self.listen(f"{self._inbox}.*", self._on_answer, self._on_inbox_refused)

    async def close(self) -> None:
        """Send what is pending, then close. What is being waited for ends with Disconnected."""
        await self._client.close()

    @property
    def is_up(self) -> bool:
        return self._up.is_set()

    @property
    def is_closed(self) -> bool:
        """Closed for good: by `close`, or because the server does not admit the identity any more."""
        return self._client.is_closed

    @property
    def in_cluster(self) -> bool:
        """Whether the server is one of several, which may elect another leader of a stream."""
        return bool(self._client._server_info.get("cluster"))

    @property
    def server_name(self) -> str:
        """The name of the server that this connection has reached."""
        return str(self._client._server_info.get("server_name", ""))

    @property
    def max_payload(self) -> int:
        """The largest message in bytes, headers included, that the server takes."""
        return self._client.max_payload

    @property
    def client(self) -> Client:
        """nats-py's own object, for what this class does not do."""
        return self._client

    def on_reconnect(self, callback: _Call) -> _Call:
        """Call `callback` after each reconnect. Returns what takes it off the list again."""
        self._reconnected.append(callback)
        return lambda: self._reconnected.remove(callback)

    def on_close(self, callback: _Call) -> _Call:
        """Call `callback` when the connection is closed for good. Returns what takes it off the list again."""
        self._closed.append(callback)
        return lambda: self._closed.remove(callback)

    # Speaking

    async def publish(
        self, subject: str, data: bytes = b"", reply: str = "", headers: dict[str, str] | None = None
    ) -> None:
        """Hand `data` to the socket. Raises Disconnected."""
        try:
            await self._client.publish(subject, data, reply=reply, headers=headers)
        except DOWN:
            raise Disconnected(f"no connection to {self.url}") from None

    def check_inbox(self) -> None:
        """Raise NotPermitted when the server does not let this connection hear answers, or has dropped it."""
        if refused := self._refused or self._refused_inbox:
            raise refused

    async def ask(
        self, subject: str, data: bytes = b"", headers: dict[str, str] | None = None
    ) -> tuple[str, asyncio.Future[Msg]]:
        """Publish and return a token and the future of the answer: a message, Disconnected or NotPermitted. Whoever
        stops waiting must call `answers.forget`."""
        self.check_inbox()
        token, future = self.answers.expect(subject)
        try:
            await self.publish(subject, data, f"{self._inbox}.{token}", headers)
        except BaseException:
            self.answers.forget(token)
            raise
        return token, future

    async def request(self, subject: str, data: bytes = b"", timeout_s: float = ANSWER_TIMEOUT_S) -> Msg:
        """Ask once. Raises LogUnavailable, NoResponders, Disconnected, NotPermitted."""
        token, future = await self.ask(subject, data)
        try:
            message = await asyncio.wait_for(future, timeout_s)
        except TimeoutError:
            raise LogUnavailable(f"{subject}: no answer within {timeout_s:g} s") from None
        finally:
            self.answers.forget(token)
        if status_of(message) == "503":
            raise NoResponders(f"{subject}: nobody answers there")
        return message

    def api_subject(self, verb: str) -> str:
        """The subject of JetStream's API, as this connection's account spells it: `STREAM.INFO.<stream>` and so on."""
        return (API_OF_AGENTS if self.in_agents else API) + verb

    @property
    def patience_s(self) -> float:
        """How long to repeat a request while nobody answers."""
        return ELECTION_PATIENCE_S if self.in_cluster else PATIENCE_S

    async def api(
        self, subject: str, body: Mapping[str, Any] | None = None, deadline_s: float | None = None
    ) -> dict[str, Any]:
        """Ask the JetStream API, again and again while it does not answer: only for requests that may be repeated.
        Raises ApiError when it refuses, LogUnavailable when nothing answers within `deadline_s` [`patience_s`],
        NotPermitted."""
        deadline_s = self.patience_s if deadline_s is None else deadline_s
        loop = asyncio.get_running_loop()
        end = loop.time() + deadline_s
        payload = msgspec.json.encode(body) if body else b""
        pause_s = 0.02
        while True:
            try:
                message = await self.request(self.api_subject(subject), payload, min(ANSWER_TIMEOUT_S, deadline_s))
                answer: dict[str, Any] = msgspec.json.decode(message.data)
                if "error" not in answer:
                    return answer
                failure: LogError = refusal(subject, answer["error"])
                if answer["error"].get("code") != 503:
                    raise failure
            except LogUnavailable as error:
                failure = error
            if self.is_closed or loop.time() + pause_s >= end:
                raise LogUnavailable(f"no answer from {self.url} within {deadline_s:g} s: {failure}") from failure
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, 0.5)

    async def listen(
        self,
        subject: str,
        callback: Callable[[Msg], Awaitable[None]],
        refused: Callable[[NotPermitted], None] | None = None,
    ) -> "Listener":
        """Call `callback`, a coroutine function, with each message on `subject`, and `refused` when the server does not
        allow that. Over reconnects too. Raises Disconnected, and LogUnavailable where this connection has as many
        subscriptions as it may have."""
        if 0 <= self._most_subscriptions <= len(self._client._subs):  # for one more the server drops the connection
            raise LogUnavailable(f"{self.who} may have {self._most_subscriptions} subscriptions at once, and has them")
        try:
            # No limits: beyond them nats-py drops messages. JetStream's flow control bounds what can be under way.
            subscription = await self._client.subscribe(
                subject, cb=callback, pending_msgs_limit=0, pending_bytes_limit=0
            )
        except DOWN:
            raise Disconnected(f"no connection to {self.url}") from None
        if refused:
            self._refused_subscriptions[subject.lower()] = refused
        return Listener(self, subscription, subject)

    def unlisten(self, subject: str) -> None:
        self._refused_subscriptions.pop(subject.lower(), None)

    # What the client reports

    async def _on_answer(self, message: Msg) -> None:
        self.last_answer_at = asyncio.get_running_loop().time()
        self.answers.give(message.subject.rpartition(".")[2], message)

    def _on_inbox_refused(self, error: NotPermitted) -> None:
        self._refused_inbox = NotPermitted(f"{error}, so it hears no answer: give it the inbox prefix of its identity")
        self.answers.fail(lambda _: self._refused_inbox)

    async def _on_disconnected(self) -> None:
        self._up.clear()
        lost = self._refused or Disconnected(f"the connection to {self.url} was lost")
        self.answers.fail(lambda _: lost)

    async def _on_closed(self) -> None:
        await self._on_disconnected()
        for callback in list(self._closed):
            callback()

    async def _on_reconnected(self) -> None:
        self._refused_since = None
        self._up.set()
        for callback in list(self._reconnected):
            callback()

    def _on_error(self, error: Exception) -> None:
        text = str(error)
        if self._inbox and any(word in text.lower() for word in _TAKEN_BACK):
            self._on_not_admitted(text)
            return
        refusal = _REFUSED.search(text)
        if refusal is None:
            return  # the connection heals by itself, or whoever waits for an answer gets none and says so
        verb, subject = refusal[1].lower(), refusal[2].lower()  # nats-py lower-cases what the server wrote
        if verb == "publish":
            self.answers.fail(
                lambda asked: self._not_permitted("publish on", asked) if asked.lower() == subject else None
            )
        elif subject in self._refused_subscriptions:
            self._refused_subscriptions[subject](self._not_permitted("subscribe to", refusal[2]))

    def _on_not_admitted(self, text: str) -> None:
        """It was open, and the server says that it may not be. While it is up, nats-py closes it for good; at a
        reconnect nats-py asks for ever."""
        now = asyncio.get_running_loop().time()
        self._refused_since = now if self._refused_since is None else self._refused_since
        if self._up.is_set() or now - self._refused_since >= REFUSAL_PATIENCE_S:
            self._refused = NotPermitted(f"{self.who} is not admitted to {self.url} any more: {text}")
            if not self._up.is_set():
                self._closing = self._closing or asyncio.ensure_future(self.close())

    def _not_permitted(self, what: str, subject: str) -> NotPermitted:
        return NotPermitted(f"{self.who} may not {what} {subject!r} at {self.url}")


class Listener:
    """A core subscription."""

    def __init__(self, connection: Connection, subscription: Subscription, subject: str) -> None:
        self._connection, self._subscription, self.subject = connection, subscription, subject

    async def close(self) -> None:
        self._connection.unlisten(self.subject)
        with contextlib.suppress(errors.BadSubscriptionError, *DOWN):  # each means that it is gone already
            await self._subscription.unsubscribe()


async def connect(
    url: str,
    name: str = "blackboard",
    *,
    credentials: Credentials | None = None,
    ca: str = "",
    timeout_s: float = 5.0,
    **options: Any,
) -> Connection:
    """Connect to the NATS server at `url` (of a cluster: several, separated by commas) under `name`, which the server
    shows to its operator.

    `credentials` say who that is. `ca` is the file of the authorities that may vouch for the server; with one, or where
    the URL begins with tls://, nothing is said to a server without TLS. `options` go to nats-py: `user`, `password`,
    `inbox_prefix`. Raises LogUnavailable when nobody answers within `timeout_s`, NotPermitted for refused credentials,
    ServerUnsuitable for a server older than 2.15, without JetStream, or that is not to be trusted, and BadAddress.
    """
    connection = Connection(url, credentials)
    await connection.open(name, timeout_s, ca=ca, **options)
    return connection
