"""`blackboard schema`: what a team, a specialist or a message takes, as JSON Schema."""

import json
from collections.abc import Callable
from typing import Any

import click

from blackboard.options import BoardOptions, board_options

MESSAGES = (
    "goal",
    "contract",
    "playbook",
    "observation",
    "signal",
    "wake",
    "task",
    "fact",
    "event",
    "proposal",
    "planning",
)


@click.command()
@click.argument("subject", required=False)
@board_options
def schema(subject: str | None, options: BoardOptions) -> None:
    """Print the JSON Schema of SUBJECT: a team, a specialist, or a message (goal, contract, playbook, observation,
    signal, wake, task, fact, event; of plans proposal, and planning, which is what whoever proposes is told). Without
    SUBJECT, list the teams and specialists of the board.
    """
    if subject in MESSAGES:
        print(json.dumps(message_schema(subject), indent=2))
    else:
        print(json.dumps(options.run(_of_board(options, subject)), indent=2))


def message_schema(name: str) -> dict[str, Any]:
    """The form of one kind of message of the protocol."""
    import msgspec

    from schemas import event_kinds, inputs, tasks
    from schemas.contracts import Contract
    from schemas.goals import Goal
    from schemas.playbooks import Playbook
    from schemas.proposals import Planning, Proposal

    written: dict[str, Callable[[], dict[str, Any]]] = {
        "goal": Goal.model_json_schema,
        "contract": Contract.model_json_schema,
        "playbook": Playbook.model_json_schema,
        "proposal": Proposal.model_json_schema,
        "planning": Planning.model_json_schema,
    }
    if name in written:
        return written[name]()
    if name == "fact":
        return _fact_schema()
    kinds: dict[str, Any] = {
        "observation": inputs.Observation | inputs.EffectIntended,
        "signal": inputs.Signal,
        "wake": inputs.Wake,
        "task": tasks.Task,
        "event": event_kinds.EventUnion,
    }
    return msgspec.json.schema(kinds[name])


def _fact_schema() -> dict[str, Any]:
    """Of a fact message, whose events the log keeps as bytes."""
    import msgspec

    from schemas.codec import FactMessage
    from schemas.event_kinds import EventUnion

    message, events = msgspec.json.schema(FactMessage), msgspec.json.schema(EventUnion)
    definitions = {**message.pop("$defs"), **events.pop("$defs")}
    definitions["FactMessage"]["properties"]["events"]["items"] = events
    return {**message, "$defs": definitions}


async def _of_board(options: BoardOptions, subject: str | None) -> dict[str, Any]:
    from blackboard.client import BadInput, Client

    settings = options.settings()
    async with settings.open("schema") as board:
        view = await Client(board, settings.name).catalogue()
    teams = {playbook.team: playbook for playbook in view.teams()}
    specialists = {contract.specialist: contract for contract in view.contracts()}
    if subject is None:
        return {
            "teams": {name: playbook.description for name, playbook in teams.items()},
            "specialists": {name: contract.offers for name, contract in specialists.items()},
        }
    if subject in teams:
        return {"team": subject, "input": teams[subject].input, "result": teams[subject].result}
    if subject in specialists:
        return specialists[subject].model_dump(mode="json")
    known = ", ".join([*teams, *specialists, *MESSAGES])
    raise BadInput(f"{subject!r} is no team, specialist or message; known: {known}")
