"""How a stream's settings differ from what a board needs, why that matters, and what mends it.

Everything here is compared as the server tells it, so a setting that is absent is one that is off.
Source: NATS documentation, stream configuration; which settings can be changed was tried on nats-server 2.15.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

WHY = {
    "subjects": "it keeps other messages than those of the board",
    "storage": "it does not outlive the server",
    "persist_mode": "it acknowledges what is not on disk",
    "no_ack": "it does not say what it stored",
    "retention": "messages go when they were read",
    "discard": "beyond a limit it drops the wrong end",
    "discard_new_per_subject": "a task could be there twice",
    "duplicate_window": "a task could be there twice",
    "deny_delete": "messages can be deleted",
    "deny_purge": "messages can be purged",
    "allow_direct": "most identities cannot read it",
    "allow_atomic": "no batch is stored as one",
    "max_msgs": "beyond that number messages are dropped",
    "max_bytes": "beyond that size messages are dropped",
    "max_age": "older messages are dropped",
    "max_msgs_per_subject": "beyond that number messages of a run are dropped",
    "max_msg_size": "larger messages are refused",
    "max_consumers": "beyond that number nobody can read it",
    "allow_msg_schedules": "a header can have messages written on other subjects",
    "allow_msg_ttl": "a header can make a message vanish",
    "subject_delete_marker_ttl": "the server writes messages of its own",
    "allow_rollup_hdrs": "a header can remove all earlier messages",
    "allow_msg_counter": "messages are added up instead of kept",
    "allow_batched": "messages can be lost in the middle of a batch",
    "mirror": "it repeats another stream and takes no messages",
    "sources": "messages of other streams are in it",
    "republish": "the server writes its messages on other subjects",
    "subject_transform": "messages are kept under other subjects",
    "sealed": "it takes no messages",
}
"""What a deviation of a stream leads to, by setting."""

WHY_OF_QUEUE = WHY | {
    "storage": "each task costs a write to disk",
    "retention": "tasks stay when they are done",
    "discard": "a new task takes the place of an old one",
    "max_msgs_per_subject": "a task could be there twice",
    "max_msgs": "beyond that number tasks are refused",
}
"""The same for a queue."""

FOR_GOOD = frozenset(
    {
        "storage",
        "retention",
        "persist_mode",
        "max_consumers",
        "allow_msg_ttl",
        "allow_msg_schedules",
        "allow_msg_counter",
        "mirror",
        "sealed",
    }
)
"""The server does not change these any more once a stream has them."""

OPEN = frozenset(
    {
        "num_replicas",
        "placement",
        "first_seq",
        "compression",
        "metadata",
        "description",
        "consumer_limits",
        "mirror_direct",
    }
)
"""What an operator may choose."""


class Deviation(NamedTuple):
    """One setting of a stream that is not as a board needs it."""

    stream: str
    setting: str
    found: Any
    wanted: Any
    why: str
    """What it leads to."""

    @property
    def what(self) -> str:
        return f"{self.setting} is {_shown(self.found)} and must be {_shown(self.wanted)}"

    @property
    def changeable(self) -> bool:
        """Whether the server changes it in place."""
        return self.setting not in FOR_GOOD


def deviations(expected: Mapping[str, Any], actual: Mapping[str, Any]) -> Iterator[Deviation]:
    """What of `actual` is not as `expected`. A list may stand in any order."""
    why = WHY_OF_QUEUE if expected.get("retention") == "workqueue" else WHY
    for setting, wanted in expected.items():
        found = actual.get(setting)
        if isinstance(wanted, list):
            same = sorted(wanted) == sorted(found or [])
        else:
            same = found == wanted or not (found or wanted)
        if not same:
            yield Deviation(str(expected["name"]), setting, found, wanted, why[setting])


def unknown_settings(expected: Mapping[str, Any], actual: Mapping[str, Any]) -> list[str]:
    """Settings that are on and that nothing here knows: those of a newer server, perhaps."""
    known = {*expected, *WHY, *OPEN}
    return sorted(name for name, value in actual.items() if value and name not in known)


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return "off" if value in (None, False, "") else "on" if value is True else str(value)
