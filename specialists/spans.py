"""The worker's part of a trace: an execution, below the attempt that the supervisor waits for, and its tool calls.

Pure. Times are left to who measures. What an execution reports to have used stands under names of its own: it counts
once it is booked, on the supervisor's span of the attempt.
"""

from schemas import spans as s
from schemas.spans import Attributes, Place, Span
from schemas.tasks import Task
from schemas.usage import Usage
from specialists.tools import Tool

GOES_ON = {"NEEDS_INPUT", "HANDED_OFF"}
"""Codes of executions that have not failed: the task goes on."""


def execution_span(task: Task, execution: str, delivery: int, version: int) -> Span:
    """From taking the task to letting it go. `delivery`: how often it was taken by now; `version`: of the contract."""
    attributes = _about(task, execution, "invoke_agent") | {
        s.AGENT_VERSION: str(version),
        s.CONTRACT: task.contract,
        s.WORK_LIMIT: task.work_ms,
        "blackboard.delivery": delivery,
        "blackboard.items": len(task.items),
    }
    return Span(f"invoke_agent {task.specialist}", _place(task, execution), task.span, 0, 0, attributes)


def tool_span(task: Task, execution: str, tool: Tool, number: int) -> Span:
    """Call `number` of the execution."""
    above = _place(task, execution)
    own = Place(above.trace, s.span_id("tool", above.span, number))
    attributes = _about(task, execution, "execute_tool") | {s.TOOL: tool.name}
    if tool.price_micro_usd:
        attributes["blackboard.tool.micro_usd"] = round(tool.price_micro_usd)
    return Span(f"execute_tool {tool.name}", own, above.span, 0, 0, attributes)


def chat_span(task: Task, execution: str, model: str, number: int) -> Span:
    """Call `number` of a model in the execution."""
    above = _place(task, execution)
    own = Place(above.trace, s.span_id("chat", above.span, number))
    attributes = _about(task, execution, "chat") | {s.MODEL: model}
    return Span(f"chat {model}", own, above.span, 0, 0, attributes, kind="client")


def end_of_chat(input_tokens: int, output_tokens: int, code: str) -> Attributes:
    """What the endpoint counted, under names of our own, as it is booked with the attempt."""
    attributes: Attributes = {
        "blackboard.execution.input_tokens": input_tokens,
        "blackboard.execution.output_tokens": output_tokens,
    }
    return attributes | ({s.ERROR: code} if code else {})


def end_of_execution(usage: Usage, code: str, how: str) -> Attributes:
    """What is known at the end: `code` of the specialist, else `how` the task was let go."""
    attributes: Attributes = {
        s.OUTCOME: code or ("DONE" if how == "stored" else how.upper()),
        "blackboard.execution.input_tokens": usage.input_tokens,
        "blackboard.execution.output_tokens": usage.output_tokens,
        "blackboard.execution.micro_usd": usage.micro_usd,
        s.TOOL_CALLS: usage.tool_calls,
    }
    return attributes | ({s.ERROR: code} if code and code not in GOES_ON else {})


def _about(task: Task, execution: str, operation: str) -> Attributes:
    return {
        s.OPERATION: operation,
        s.AGENT: task.specialist,
        s.RUN: task.run,
        s.TASK: task.task,
        s.ATTEMPT: task.attempt,
        s.EXECUTION: execution,
    }


def _place(task: Task, execution: str) -> Place:
    return Place(s.trace_id(task.log, task.run), s.span_id("execution", task.span, execution))
