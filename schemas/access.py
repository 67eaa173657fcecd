"""Who may say and hear what: one table, from which credentials, the server's configuration, the table in docs/access.md
and the test of all permissions are made.

Two accounts hold the identities. In BUS, which owns the streams, are only the administrator and supervisors: whoever
may publish anything there can have the server write its answers to any subject, by naming it as the reply. All others
are in AGENTS and reach BUS through imported services, whose answers go nowhere but back.
Source: docs/access.md.
"""

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from typing import Literal, NamedTuple

from schemas.subjects import matches, token


class Role(StrEnum):
    """What an identity is for."""

    ADMIN = "admin"
    SUPERVISOR = "supervisor"
    SPECIALIST = "specialist"
    PUBLISHER = "publisher"
    APPROVER = "approver"
    CONSOLE = "console"
    CURATOR = "curator"
    AUDITOR = "auditor"
    NOTARY = "notary"


API, API_OF_AGENTS = "$JS.API.", "$JS.bus.API."
"""How the accounts spell JetStream's API: as a JetStream domain `bus`, for the server answers in AGENTS under the usual
name by itself, that there is no JetStream."""

ON_THE_BUS = frozenset({Role.ADMIN, Role.SUPERVISOR})
READERS = frozenset({Role.PUBLISHER, Role.APPROVER, Role.CONSOLE, Role.CURATOR, Role.AUDITOR, Role.NOTARY})
_ADMIN = frozenset({Role.ADMIN})
_SUPERVISOR = frozenset({Role.SUPERVISOR})
_SPECIALIST = frozenset({Role.SPECIALIST})
_CURATOR = frozenset({Role.CURATOR})
_PUBLISHERS = frozenset({Role.PUBLISHER, Role.CONSOLE})
_APPROVERS = frozenset({Role.APPROVER, Role.CONSOLE})
_LISTENERS = READERS | _SUPERVISOR

Action = Literal["publish", "subscribe"]
Answers = Literal["none", "one", "many"]


class Rule(NamedTuple):
    """These roles may do this on that subject. `{board}`, `{name}` and `{inbox}` stand for the identity's own.
    `answers`: how many messages come back, for the export of a service."""

    roles: frozenset[Role]
    action: Action
    subject: str
    answers: Answers
    why: str


RULES: tuple[Rule, ...] = (
    Rule(_ADMIN, "publish", ">", "none", "all of the account BUS: makes, changes, saves and restores streams"),
    Rule(_ADMIN, "subscribe", ">", "none", "the same"),
    # The log
    Rule(_PUBLISHERS, "publish", "bb.{board}.goal.{name}.*", "one", "goals under its own name"),
    Rule(_APPROVERS, "publish", "bb.{board}.signal.{name}.*", "one", "answers, approvals, cancels under its own name"),
    Rule(_SPECIALIST, "publish", "bb.{board}.obs.{name}.*", "one", "its own observations"),
    Rule(_SPECIALIST, "publish", "bb.{board}.obs.{name}.*.*.*", "one", "its own intents of effects"),
    Rule(_CURATOR, "publish", "bb.{board}.contract.*", "one", "contracts of all specialists"),
    Rule(_CURATOR, "publish", "bb.{board}.playbook.*", "one", "playbooks of all teams"),
    Rule(_SUPERVISOR, "publish", "bb.{board}.goal._supervisor.*", "one", "goals of child runs"),
    Rule(_SUPERVISOR, "publish", "bb.{board}.wake.*", "one", "wakes"),
    Rule(_SUPERVISOR, "publish", "bb.{board}.fact.*", "one", "facts and the other events"),
    # Reading the log
    Rule(READERS, "publish", "$JS.API.STREAM.INFO.BOARD_{board}", "one", "the log's id, head and settings"),
    Rule(READERS, "publish", "$JS.API.STREAM.MSG.GET.BOARD_{board}", "one", "a message of the log, from the leader"),
    Rule(READERS, "publish", "$JS.API.DIRECT.GET.BOARD_{board}", "many", "messages of the log"),
    Rule(READERS, "publish", "$JS.API.DIRECT.GET.BOARD_{board}.>", "many", "the last message on a subject"),
    Rule(READERS, "subscribe", "bb.{board}.fact.*", "none", "that there is something to read"),
    Rule(
        _SPECIALIST,
        "publish",
        "$JS.API.DIRECT.GET.BOARD_{board}.bb.{board}.contract.{name}",
        "many",
        "its contract, as it stands in the catalogue",
    ),
    Rule(
        _SPECIALIST,
        "publish",
        "$JS.API.DIRECT.GET.BOARD_{board}.bb.{board}.obs.{name}.*.*.*",
        "many",
        "its own intents, when an answer was lost",
    ),
    Rule(_SUPERVISOR, "publish", "$JS.API.STREAM.INFO.BOARD_{board}", "one", "the log's id, head and settings"),
    Rule(_SUPERVISOR, "publish", "$JS.API.STREAM.MSG.GET.BOARD_{board}", "one", "a message of the log"),
    Rule(_SUPERVISOR, "publish", "$JS.API.CONSUMER.CREATE.BOARD_{board}.>", "one", "reads the log through a consumer"),
    Rule(_SUPERVISOR, "publish", "$JS.API.CONSUMER.DELETE.BOARD_{board}.*", "one", "and takes it away"),
    Rule(_SUPERVISOR, "publish", "$JS.FC.BOARD_{board}.>", "none", "says that it has read so far"),
    # The task queue
    Rule(_SUPERVISOR, "publish", "bb.{board}.task.*.*.*.*", "one", "tasks"),
    Rule(_SUPERVISOR, "publish", "$JS.API.STREAM.CREATE.TASKS_{board}", "one", "makes the queue anew"),
    Rule(_LISTENERS, "publish", "$JS.API.STREAM.INFO.TASKS_{board}", "one", "what is in the queue"),
    Rule(_SUPERVISOR, "publish", "$JS.API.STREAM.MSG.GET.TASKS_{board}", "one", "finds a task in the queue"),
    Rule(_SUPERVISOR, "publish", "$JS.API.STREAM.MSG.DELETE.TASKS_{board}", "one", "takes a task out of the queue"),
    Rule(_SUPERVISOR, "publish", "$JS.API.CONSUMER.CREATE.TASKS_{board}.>", "one", "makes the place of a specialist"),
    Rule(_SPECIALIST, "publish", "$JS.API.CONSUMER.MSG.NEXT.TASKS_{board}.{name}", "many", "takes its own tasks"),
    Rule(_SPECIALIST, "publish", "$JS.ACK.TASKS_{board}.{name}.>", "one", "keeps, returns or ends what it took"),
    # Cancels
    Rule(_SUPERVISOR, "publish", "bb.{board}.cancel.*.*.*", "none", "cancels of tasks"),
    Rule(_SPECIALIST, "subscribe", "bb.{board}.cancel.{name}.*.*", "none", "cancels of its own tasks"),
    # Blobs
    Rule(_SPECIALIST, "publish", "bb.{board}.blob.{name}.*.*", "one", "blobs under its own name"),
    Rule(_SPECIALIST | READERS, "publish", "$JS.API.DIRECT.GET.BLOB_{board}", "many", "blobs, by digest"),
    Rule(_LISTENERS, "publish", "$JS.API.STREAM.INFO.BLOB_{board}", "one", "the settings of the blobs"),
    # Who is active
    Rule(_SUPERVISOR, "publish", "bb.{board}.lead", "none", "that it is active"),
    Rule(_LISTENERS, "subscribe", "bb.{board}.lead", "none", "which supervisor is active"),
    # Answers
    Rule(frozenset(Role) - _ADMIN, "subscribe", "{inbox}.>", "none", "answers to what it asked"),
)


class Permissions(NamedTuple):
    """Subjects that an identity may publish on and subscribe to, with wildcards."""

    publish: list[str]
    subscribe: list[str]


class Export(NamedTuple):
    """What BUS gives to AGENTS. A service takes what is published there, and answers; a stream is heard."""

    subject: str
    kind: Literal["service", "stream"]
    answers: Answers

    @property
    def local(self) -> str:
        """How AGENTS spells it, with a reference for each wildcard."""
        wildcards = itertools.count(1)
        parts = self.subject.replace(API, API_OF_AGENTS, 1).split(".")
        return ".".join(f"${next(wildcards)}" if part == "*" else part for part in parts)


def account_of(roles: Iterable[Role]) -> Literal["BUS", "AGENTS"]:
    """The account of an identity with these roles. Raises ValueError where they belong into different ones."""
    on_the_bus = {role in ON_THE_BUS for role in roles}
    if len(on_the_bus) != 1:
        raise ValueError("an administrator or supervisor can have no role of the others: grant two identities")
    return "BUS" if on_the_bus.pop() else "AGENTS"


def permissions(
    roles: Sequence[Role], names: Sequence[str], board: str, inbox: str, rules: Sequence[Rule] = RULES
) -> Permissions:
    """What an identity may do that has these roles, under each of these names (a worker's process: of each of its
    specialists), on one board. Raises BadName, ValueError."""
    api = API if account_of(roles) == "BUS" else API_OF_AGENTS
    given = Permissions([], [])
    for rule in rules:
        if rule.roles.isdisjoint(roles):
            continue
        found = given.publish if rule.action == "publish" else given.subscribe
        for name in names:
            subject = rule.subject.format(board=token(board, "board"), name=token(name), inbox=inbox)
            subject = subject.replace(API, api, 1)
            if subject not in found:
                found.append(subject)
    return given


def exports(rules: Sequence[Rule] = RULES) -> Iterator[Export]:
    """What BUS must export for the identities of AGENTS; of subjects that contain each other the widest."""
    wanted: dict[str, Rule] = {}
    for rule in rules:
        if not rule.roles <= ON_THE_BUS and "{inbox}" not in rule.subject:
            wanted.setdefault(".".join("*" if "{" in part else part for part in rule.subject.split(".")), rule)
    for subject, rule in wanted.items():
        if not any(other != subject and matches(other, subject) for other in wanted):
            yield Export(subject, "service" if rule.action == "publish" else "stream", rule.answers)


_PART = re.compile(r"\{(\w+)\}")


def table(rules: Sequence[Rule] = RULES) -> str:
    """The rules as a table in Markdown."""
    lines = ["| who | may | on | for |", "| --- | --- | --- | --- |"]
    shown: Callable[[re.Match[str]], str] = lambda part: f"<{part[1]}>"  # noqa: E731
    for rule in rules:
        who = ", ".join(role for role in Role if role in rule.roles)
        lines.append(f"| {who} | {rule.action} | `{_PART.sub(shown, rule.subject)}` | {rule.why} |")
    return "\n".join(lines) + "\n"
