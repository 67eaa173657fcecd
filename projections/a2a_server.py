"""The board as an agent of the A2A protocol: teams are its skills, a task is a run. The only importer of its SDK.

A message names the team and holds the input, as a JSON part; a text alone is the input of a team that takes one text.
What a run asks people is answered on the board, not here: the task is `input-required` until they have.
"""

import json
from typing import Any

from a2a.helpers import get_data_parts, get_message_text, new_task_from_user_message, new_text_part
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandlerV2
from a2a.server.routes.agent_card_routes import create_agent_card_routes
from a2a.server.routes.jsonrpc_routes import create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types.a2a_pb2 import AgentCapabilities, AgentCard, AgentInterface, AgentSkill, Message
from starlette.applications import Starlette

from blackboard.board import Board
from blackboard.client import BadInput, Client
from blackboard.log import LogError
from projections.audit import Recorded, Violation
from projections.canonical import State
from projections.cli_events import sentence
from projections.live import GoalRejected, follow
from projections.status import NEEDS_INPUT, waits
from schemas.codec import sha256
from schemas.playbooks import Playbook
from schemas.subjects import BadName

JSON = "application/json"
RPC = "/a2a"


class Runs(AgentExecutor):
    """Publishes a goal for each task, and follows its run."""

    def __init__(self, board: Board, name: str) -> None:
        self._board, self._client = board, Client(board, name)

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        updater = TaskUpdater(event_queue, context.task_id or "", context.context_id or "")
        run = run_of(context.task_id or "")
        try:
            if context.current_task is None and context.message:
                await event_queue.enqueue_event(new_task_from_user_message(context.message))
                team, input = _asked(context.message, (await self._client.catalogue()).teams())
                await self._client.publish(team, input, run)
            await self._follow(run, updater)
        except (BadInput, BadName, GoalRejected) as error:
            await updater.reject(_saying(updater, str(error)))
        except (LogError, Violation) as error:
            await updater.failed(_saying(updater, str(error)))

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        updater = TaskUpdater(event_queue, context.task_id or "", context.context_id or "")
        await self._client.cancel(run_of(context.task_id or ""), "asked for over A2A")
        await updater.cancel()

    async def _follow(self, run: str, updater: TaskUpdater) -> None:
        """Until the run has ended, or waits for people now."""
        heard: list[str] = []

        def hear(item: Recorded) -> None:
            heard.extend(filter(None, [sentence(item.event)]))

        newest = await self._board.log.last(self._board.subjects.fact(run))
        coming = follow(self._board, run, hear)
        try:
            async for folded in coming:
                state = folded.state
                if state.end:
                    await _ended(state, updater)
                    return
                if state.phase == NEEDS_INPUT and (newest is None or folded.seq >= newest.seq):
                    await updater.requires_input(_saying(updater, "; ".join(waits(state))))
                    return
                await updater.start_work(_saying(updater, "; ".join(heard) or f"run {run}: {state.phase}"))
                heard.clear()
        finally:
            await coming.aclose()


def run_of(task: str) -> str:
    """The run of a task: the same whenever it is asked for, and a token."""
    return f"a2a-{sha256(task.encode())[:20]}"


async def _ended(state: State, updater: TaskUpdater) -> None:
    reason = _saying(updater, f"run {state.run} is {state.end}: {state.code} {state.reason}".rstrip(": "))
    if state.result is not None:
        text = json.dumps(state.result, ensure_ascii=False)  # as a data part its whole numbers would be none any more
        await updater.add_artifact([new_text_part(text, media_type=JSON)], name="result")
        await updater.complete(reason)
    elif state.end == "CANCELLED":
        await updater.cancel(reason)
    else:
        await updater.failed(reason)


def _saying(updater: TaskUpdater, text: str) -> Message:
    return updater.new_agent_message([new_text_part(text)])


# --- what is asked for ------------------------------------------------------------------------------------------------


def _asked(message: Message, teams: list[Playbook]) -> tuple[str, dict[str, Any]]:
    """The team and its input. Raises BadInput."""
    named = next((one for one in _objects(message) if isinstance(one.get("team"), str)), None)
    if named is not None:
        given = named.get("input", {})
        if not isinstance(given, dict):
            raise BadInput("input: an object is wanted")
        return named["team"], given
    text = get_message_text(message)
    taking = [(one.team, field) for one in teams if (field := _one_text(one.input))]
    if text and len(taking) == 1:
        team, field = taking[0]
        return team, {field: text}
    there = ", ".join(one.team for one in teams) or "none yet"
    raise BadInput(f'a JSON part {{"team": ..., "input": ...}} is wanted (teams: {there})')


def _objects(message: Message) -> list[dict[str, Any]]:
    found = [_whole(one) for one in get_data_parts(message.parts)]
    for part in message.parts:
        if part.media_type == JSON and part.text:
            try:
                found.append(json.loads(part.text))
            except (ValueError, RecursionError) as error:
                raise BadInput(f"a part is not JSON: {error}") from None
    return [one for one in found if isinstance(one, dict)]


def _whole(value: Any) -> Any:
    """With whole numbers where a data part has made them something else."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    if isinstance(value, list):
        return [_whole(one) for one in value]
    return {name: _whole(one) for name, one in value.items()} if isinstance(value, dict) else value


def _one_text(schema: dict[str, Any]) -> str:
    """The one field that a team needs, where it is a text; else an empty text."""
    required, fields = schema.get("required", []), schema.get("properties", {})
    return required[0] if len(required) == 1 and fields.get(required[0], {}).get("type") == "string" else ""


# --- the card ---------------------------------------------------------------------------------------------------------


def make_app(board: Board, name: str, url: str) -> Any:
    """The card at its well-known place, made anew for each request, and the endpoint."""
    base = AgentCard(
        name=f"blackboard {board.subjects.board}",
        description="Teams of specialists on a blackboard. A task is a run; its artifact is the result, as JSON.",
        supported_interfaces=[AgentInterface(url=f"{url}{RPC}", protocol_binding="JSONRPC", protocol_version="1.0")],
        version="1",
        capabilities=AgentCapabilities(streaming=True),
        default_input_modes=[JSON, "text/plain"],
        default_output_modes=[JSON],
    )

    async def with_skills(card: AgentCard) -> AgentCard:
        made = AgentCard()
        made.CopyFrom(card)
        made.skills.extend(_skill(one) for one in (await Client(board, name).catalogue()).teams())
        return made

    handler = DefaultRequestHandlerV2(Runs(board, name), InMemoryTaskStore(), base)
    return Starlette(routes=[*create_agent_card_routes(base, with_skills), *create_jsonrpc_routes(handler, RPC)])


def _skill(playbook: Playbook) -> AgentSkill:
    return AgentSkill(
        id=playbook.team,
        name=playbook.team,
        description=f"{playbook.description} Input: {json.dumps(playbook.input)}".strip(),
        tags=["team"],
    )
