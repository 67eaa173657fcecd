"""The permissions that a live server enforces are those of the table, for every identity, subject and verb."""

import pytest

from schemas.access import RULES, Role, exports
from schemas.subjects import matches
from tests.access.matrix import bench
from tests.access.mutants import mutants, survivors_of_imports
from tests.plugins.figures import Figures


async def test_the_server_does_what_the_table_says(tmp_path, figures: Figures) -> None:
    """And a table with one fault in it is not taken for the right one: one of eight is tried here, each by
    `make permissions`."""
    async with bench(tmp_path) as live:
        tried = {role: await live.wrong(role) for role in Role}
        cells = sum(number for number, _ in tried.values())
        wrong = [one for _, found in tried.values() for one in found]
        chosen = list(mutants())[::8]
        unseen = [mutant.name for mutant in chosen if not (await live.wrong(mutant.roles[0], mutant.rules))[1]]
        imports, unseen_imports = await survivors_of_imports(live)
    figures.say(f"permissions: cells: {cells}, wrong: {len(wrong)}, faults in the table tried: {len(chosen) + imports}")
    assert wrong == []
    assert cells > 500
    assert unseen + unseen_imports == []


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: f"{rule.action} {rule.subject}")
def test_a_rule_reaches_the_account_of_the_streams(rule) -> None:
    """What the roles of AGENTS may do is exported, and nothing else is."""
    subject = ".".join("x" if "{" in part or part in "*>" else part for part in rule.subject.split("."))
    exported = any(matches(one.subject, subject) for one in exports())
    assert exported or rule.roles <= {Role.ADMIN, Role.SUPERVISOR} or "{inbox}" in rule.subject


def test_only_wakes_facts_tasks_and_cancels_are_the_supervisors() -> None:
    for family in ("wake", "fact", "task", "cancel"):
        writers = {
            role
            for rule in RULES
            if rule.action == "publish" and rule.subject.startswith(f"bb.{{board}}.{family}.")
            for role in rule.roles
        }
        assert writers == {Role.SUPERVISOR}
