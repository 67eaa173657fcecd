"""Which model a specialist asks, where, and at what price: configuration, so that it changes without code.

`BLACKBOARD_MODEL` names a model for all specialists. `BLACKBOARD_MODELS` names a TOML file with a table for each
specialist that differs, by its name, and one for all others, `default`; the fields are those of `Model`:

    [default]
    name = "gpt-5-mini"
    usd_per_million_input = 0.25
    usd_per_million_output = 2

    [critic]
    name = "SmolLM2"
    base_url = "http://127.0.0.1:8080/v1"
    extra_body = {cache_prompt = true}

Without a base_url and an api_key_env the SDK's own settings hold: OPENAI_BASE_URL and OPENAI_API_KEY.
"""

import os
import tomllib
from contextvars import ContextVar
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from schemas.goals import explain
from schemas.usage import Usage

MODEL, MODELS = "BLACKBOARD_MODEL", "BLACKBOARD_MODELS"
Structured = Literal["auto", "schema", "tool", "json"]


SCRIPT: ContextVar[Any] = ContextVar("models that are scripted", default=None)
"""A specialists.scripted_models.ScriptedModels while it answers in place of endpoints."""


class BadModels(ValueError):
    """What is configured cannot be used; the text says where and what to change."""

    exit_code = 2


class Model(BaseModel):
    """A model behind an OpenAI-compatible endpoint.

    base_url, api_key_env: None as the SDK has them; api_key_env names an environment variable. extra_headers,
    extra_body: sent along, as gateways want them; headers are never recorded.
    max_tokens: of one answer; the rest of the budget where that is less. temperature, seed: None as the model has them.
    structured: how a value in a given form is asked for: a strict JSON Schema, a call of a tool, or JSON that is
    checked; `auto` takes the first of these that the endpoint accepts. repairs: how often a model is told what is wrong
    with its answer and asked again.
    timeout_s: without any byte of an answer. attempts: calls for one answer, the others after a failure that may pass.
    stream: tells who watches how far the answer is.
    usd_per_million_...: prices; cached tokens are those of the input that the endpoint had seen (None: as the others).
    bytes_per_token: at least so many bytes of text make a token, for what a call may use at most. One byte is true for
    any text; more is a bet on the texts that come.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(min_length=1)
    base_url: str | None = None
    api_key_env: str | None = None
    extra_headers: dict[str, str] = {}
    extra_body: dict[str, Any] = {}
    max_tokens: int = Field(default=4096, ge=1)
    temperature: float | None = Field(default=None, ge=0)
    seed: int | None = None
    structured: Structured = "auto"
    repairs: int = Field(default=2, ge=0, le=10)
    timeout_s: float = Field(default=60, gt=0)
    attempts: int = Field(default=3, ge=1, le=10)
    stream: bool = False
    usd_per_million_input: float = Field(default=0, ge=0)
    usd_per_million_output: float = Field(default=0, ge=0)
    usd_per_million_cached: float | None = Field(default=None, ge=0)
    bytes_per_token: float = Field(default=1, ge=1)

    def micro_usd(self, input_tokens: int, output_tokens: int, cached_tokens: int = 0) -> int:
        """What a call costs, in millionths of a dollar, rounded up: so calls add up exactly, and none is free."""
        cached = self.usd_per_million_input if self.usd_per_million_cached is None else self.usd_per_million_cached
        known = min(cached_tokens, input_tokens)
        price = (
            (input_tokens - known) * Fraction(str(self.usd_per_million_input))
            + known * Fraction(str(cached))
            + output_tokens * Fraction(str(self.usd_per_million_output))
        )
        return -(-price.numerator // price.denominator)

    def usage(self, input_tokens: int, output_tokens: int, cached_tokens: int = 0) -> Usage:
        return Usage(
            input_tokens=input_tokens,
            output_tokens=output_tokens,
            micro_usd=self.micro_usd(input_tokens, output_tokens, cached_tokens),
        )


def model_of(specialist: str) -> Model | None:
    """The model that is configured for `specialist`; None where there is none. Raises BadModels."""
    if (script := SCRIPT.get()) and script.knows(specialist):
        return Model(name="scripted", structured="schema")
    tables = _tables()
    name = os.environ.get(MODEL)
    default = tables.get("default", {}) | ({"name": name} if name else {})
    wanted = default | tables.get(specialist, {})
    if not wanted:
        return None
    try:
        return Model.model_validate(wanted)
    except ValidationError as error:
        raise BadModels(f"the model of {specialist}: {explain(error)} (in {os.environ.get(MODELS) or MODEL})") from None


def _tables() -> dict[str, dict[str, Any]]:
    path = os.environ.get(MODELS)
    if not path:
        return {}
    try:
        tables = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise BadModels(f"{MODELS} names {path}, which cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadModels(f"{MODELS} names {path}, which is no TOML file: {error}") from None
    if odd := [name for name, table in tables.items() if not isinstance(table, dict)]:
        raise BadModels(f'{path}: {odd[0]} stands outside of a table; write it below "[default]" or "[{odd[0]}]"')
    return tables
