"""Installed merge policies: what other packages of this environment offer as entry points of `blackboard.policies`.

They are loaded once, when a process that decides starts. One that cannot be loaded is passed over with a warning, and
the runs that need it are left alone; the board goes on.
"""

import logging
from collections import defaultdict
from collections.abc import Iterable
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from supervisor.merge import Policy

log = logging.getLogger(__name__)

GROUP = "blackboard.policies"


class NoPolicy(Exception):
    """An entry point offers what is no policy. The text names what is wrong."""


def installed_policies() -> dict[tuple[str, int], Policy]:
    """The policies by name and version. Of two packages that offer the same one neither is used: which comes first
    would depend on the machine."""
    return loaded(entry_points(group=GROUP))


def loaded(entries: Iterable[EntryPoint]) -> dict[tuple[str, int], Policy]:
    offers: dict[tuple[str, int], list[tuple[Policy, str]]] = defaultdict(list)
    for entry in entries:
        try:
            for policy in _policies(entry):
                offers[policy.name, policy.version].append((policy, _whose(entry)))
        except (Exception, SystemExit) as error:
            said = str(error) if isinstance(error, NoPolicy) else f"{type(error).__name__}: {error}"
            log.warning("merge policy `%s` of %s is passed over: %s", entry.name, _whose(entry), said)
    for (name, version), offered in sorted(offers.items()):
        if len(offered) > 1:
            whose = " and ".join(sorted(whose for _, whose in offered))
            log.warning("merge policy `%s` version %d is passed over: %s offer it", name, version, whose)
    return {key: offered[0][0] for key, offered in sorted(offers.items()) if len(offered) == 1}


def _policies(entry: EntryPoint) -> list[Policy]:
    """What one entry point offers: a Policy, or several versions of it in a list or tuple."""
    offered: Any = entry.load()
    policies = list(offered) if isinstance(offered, list | tuple) else [offered]
    for policy in policies:
        if not isinstance(policy, Policy):
            raise NoPolicy(f"{entry.value} is no supervisor.merge.Policy")
        if policy.name != entry.name:
            raise NoPolicy(f"{entry.value} is named `{policy.name}`; the entry point must have the same name")
    return policies


def _whose(entry: EntryPoint) -> str:
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist else "an unknown distribution"
