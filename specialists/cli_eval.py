"""`blackboard eval`: play the scenarios that a team ships, and compare what comes of them with what they expect."""

import logging
import sys
from typing import Any

import click

from blackboard.options import BoardOptions
from specialists.budget import usd_text
from specialists.evaluation import Verdict, play
from specialists.loading import load_team
from specialists.models import model_of
from specialists.scenarios import Scenario
from specialists.specialist import Team

BEYOND = 1
"""The exit code where a scenario comes to something else than it expects, or is beyond its limits."""


def evaluate_team(options: BoardOptions, target: str, names: tuple[str, ...], live: bool, seeds: int | None) -> int:
    """The exit code. Raises LoadError, and UsageError for a scenario that there is not."""
    team = load_team(target)
    chosen = _chosen(team, target, names)
    if live and (bare := _without_a_model(team)):
        click.echo(f"No model is configured for {', '.join(bare)}: they do what they do without one.", err=True)
    if not live:  # what a world in which things go wrong has to say is not for the terminal
        logging.getLogger().addHandler(logging.NullHandler())
    verdicts = [_played(options, team, one, live, seeds) for one in chosen]
    options.say(_record(team, live, verdicts), _shown(verdicts, live))
    return 0 if all(one.passed for one in verdicts) else BEYOND


def _chosen(team: Team, target: str, names: tuple[str, ...]) -> list[Scenario]:
    known = {one.name: one for one in team.scenarios}
    if not known:
        raise click.UsageError(
            f"{target} ships no scenario; give it some: Team(playbook, specialists, scenarios=[...])"
        )
    if odd := [name for name in names if name not in known]:
        raise click.UsageError(f"there is no scenario {odd[0]!r}; there are {', '.join(known)}")
    return [known[name] for name in names or known]


def _without_a_model(team: Team) -> list[str]:
    scripted = {name.partition("/")[0] for one in team.scenarios for name in one.models}
    return sorted(name for name in scripted if model_of(name) is None)


def _played(options: BoardOptions, team: Team, scenario: Scenario, live: bool, seeds: int | None) -> Verdict:
    if seeds:
        scenario = scenario.model_copy(update={"runs" if live else "seeds": seeds})
    count = scenario.runs if live else scenario.seeds
    if options.as_json or not sys.stderr.isatty():
        return play(team, scenario, live)
    with click.progressbar(length=count, label=scenario.name, file=sys.stderr) as bar:
        return play(team, scenario, live, lambda: bar.update(1))


def _record(team: Team, live: bool, verdicts: list[Verdict]) -> dict[str, Any]:
    return {
        "team": team.name,
        "live": live,
        "passed": all(one.passed for one in verdicts),
        "scenarios": [
            {
                "name": one.scenario.name,
                "passed": one.passed,
                "runs": len(one.played),
                "p50_s": one.latency_s(0.5),
                "p95_s": one.latency_s(0.95),
                "tokens": one.tokens,
                "micro_usd": one.micro_usd,
                "retry_rate": one.retry_rate,
                "tool_error_rate": one.tool_error_rate,
                "problems": one.problems,
            }
            for one in verdicts
        ],
    }


PROBLEMS_SHOWN = 5


def _shown(verdicts: list[Verdict], live: bool) -> str:
    heads = ("scenario", "runs", "p50", "p95", "tokens", "cost", "retries", "tool errors", "")
    rows = [heads, *(_row(one) for one in verdicts)]
    widths = [max(len(row[place]) for row in rows) for place in range(len(heads))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    for one in verdicts:
        lines += [f"{one.scenario.name}: {problem}" for problem in one.problems[:PROBLEMS_SHOWN]]
        if (more := len(one.problems) - PROBLEMS_SHOWN) > 0:
            lines.append(f"{one.scenario.name}: and {more} more")
    passed, count = sum(one.passed for one in verdicts), sum(len(one.played) for one in verdicts)
    how = "live" if live else "simulated, in virtual time"
    return "\n".join([*lines, f"eval: {passed} of {len(verdicts)} scenarios pass, {count} runs, {how}"])


def _row(one: Verdict) -> tuple[str, ...]:
    limits = one.scenario.limits
    return (
        one.scenario.name,
        str(len(one.played)),
        _within(f"{one.latency_s(0.5):.3g} s", limits.p50_s),
        _within(f"{one.latency_s(0.95):.3g} s", limits.p95_s),
        _within(str(one.tokens), limits.tokens),
        _within(usd_text(one.micro_usd), limits.usd),
        _within(f"{one.retry_rate:.1%}", limits.retry_rate, percent=True),
        _within(f"{one.tool_error_rate:.1%}", limits.tool_error_rate, percent=True),
        "passes" if one.passed else "FAILS",
    )


def _within(measured: str, limit: float | None, percent: bool = False) -> str:
    """What was measured, with its limit where there is one."""
    if limit is None:
        return measured
    shown = f"{limit:.0%}" if percent else str(limit).removesuffix(".0")
    return f"{measured} of {shown}"
