"""How JetStream writes what the board reads: stored messages in JSON, delivered ones with their place in the reply
subject.

Source: NATS architecture decision records 1 (JSON API), 15 (reply subjects of consumers) and 50 (batches).
"""

import base64
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from nats.aio.msg import Msg

from blackboard.log import Message

SERVER_HEADERS = "Nats-"
"""Headers that begin so speak to the server. They are no part of the message and nobody above sees them."""

EXPECTED = "Nats-Expected-Last-Subject-Sequence"
EXPECTED_AMONG = "Nats-Expected-Last-Subject-Sequence-Subject"
"""The subjects, with wildcards, among which a sequence is expected."""

NOT_FOUND = 10037
SEQUENCE_NOT_FOUND = 10043
NO_STREAM = 10059
NO_CONSUMER = 10014
NAME_TAKEN = 10058
STORE_FAILED = 10077
"""The stream could not store a message: its description says why."""
WRONG_SEQUENCE = 10071
SEQUENCE_IN_FLIGHT = 10164
"""A replicated stream says this, besides WRONG_SEQUENCE, while another message on the subject is under way."""
TOO_LARGE = 10054


def is_there(error: Mapping[str, Any]) -> bool:
    """Whether a message was refused because its subject has as many messages as it may have."""
    return error.get("err_code") == STORE_FAILED and "per subject" in error.get("description", "")


PLACE = "$JS.ACK."
"""How the reply subject of a delivered message begins, and of no other."""


class Place(NamedTuple):
    """Where a delivered message stands: `seq` in the stream, `number` among this consumer's deliveries; `pending`
    messages follow it; `tries` says how often it was delivered."""

    seq: int
    number: int
    pending: int
    tries: int
    time_ms: int


def place_of(reply: str) -> Place:
    """Read `$JS.ACK.<stream>.<consumer>.<count>.<seq>.<number>.<time ns>.<pending>`; domain and account may precede
    the stream, and a token may follow."""
    tokens = reply.split(".")
    count, seq, number, time_ns, pending = tokens[4:9] if len(tokens) == 9 else tokens[6:11]
    return Place(int(seq), int(number), int(pending), int(count), int(time_ns) // 1_000_000)


def own_headers(headers: dict[str, str] | None) -> dict[str, str] | None:
    """The headers without the server's; None when none are left."""
    if not headers:
        return None
    return {name: value for name, value in headers.items() if not name.startswith(SERVER_HEADERS)} or None


def delivered(message: Msg, place: Place) -> Message:
    """A message that a consumer delivered."""
    return Message(place.seq, message.subject, place.time_ms, message.data, own_headers(message.headers))


_APPENDED = ("Nats-Subject", "Nats-Sequence", "Nats-Time-Stamp")


def is_stored(message: Msg) -> bool:
    """Whether an answer to a direct get is a message of the stream, and not what the server says itself. A message's
    own headers may claim anything, a status too, and may swallow the first that the server appends; never these."""
    return all(name in (message.headers or {}) for name in _APPENDED)


def direct(message: Msg) -> Message:
    """A message that answers a direct get. The server's headers come last, after those that it was stored with."""
    headers = message.headers or {}
    time_ms = _milliseconds(headers["Nats-Time-Stamp"])
    return Message(int(headers["Nats-Sequence"]), headers["Nats-Subject"], time_ms, message.data, own_headers(headers))


def stored(answer: dict[str, Any]) -> Message:
    """A message out of an answer of STREAM.MSG.GET."""
    fields = answer["message"]
    data = base64.b64decode(fields.get("data", ""))
    headers = own_headers(stored_headers(answer))
    return Message(fields["seq"], fields["subject"], _milliseconds(fields["time"]), data, headers)


def stored_headers(answer: dict[str, Any]) -> dict[str, str]:
    """All headers of the message in an answer of STREAM.MSG.GET, the server's included."""
    headers = {}
    raw = base64.b64decode(answer["message"].get("hdrs", ""))
    for line in raw.decode("utf-8", "replace").split("\r\n")[1:]:
        name, colon, value = line.partition(":")
        if colon:
            headers[name.strip()] = value.strip()
    return headers


def _milliseconds(text: str) -> int:
    """RFC 3339 with up to nine digits of a second, in UTC; rounded down, as `place_of` does."""
    seconds, _, fraction = text.removesuffix("Z").partition(".")
    whole = int(datetime.fromisoformat(seconds).replace(tzinfo=UTC).timestamp())
    return whole * 1000 + int(fraction[:3].ljust(3, "0") or 0)
