"""Which model a specialist asks: from the environment and a file, and what is said where these are wrong."""

from pathlib import Path

import pytest

from specialists.models import BadModels, Model, model_of

FILE = """
[default]
name = "large"
usd_per_million_input = 0.25
extra_headers = {x-team = "research"}

[critic]
name = "small"
base_url = "http://127.0.0.1:8080/v1"
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "models.toml"
    path.write_text(FILE, encoding="utf-8")
    monkeypatch.setenv("BLACKBOARD_MODELS", str(path))
    return path


def test_none_is_configured() -> None:
    assert model_of("critic") is None


def test_name_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BLACKBOARD_MODEL", "gpt-5-mini")
    assert model_of("critic") == Model(name="gpt-5-mini")


def test_specialist_has_its_own_on_top_of_the_default(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert model_of("writer") == Model(name="large", usd_per_million_input=0.25, extra_headers={"x-team": "research"})
    critic = model_of("critic")
    assert critic
    assert (critic.name, critic.base_url, critic.usd_per_million_input) == ("small", "http://127.0.0.1:8080/v1", 0.25)
    monkeypatch.setenv("BLACKBOARD_MODEL", "other")
    assert [one.name for one in (model_of("writer"), model_of("critic")) if one] == ["other", "small"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name = 'x'", 'write it below "[default]"'),
        ("[default]\nname = 'x'\ntemprature = 1", "temprature"),
        ("[default]\ntemperature = 1", "name"),
        ("[default", "no TOML file"),
        ("[default]\nname = 'x'\nmax_tokens = 0", "max_tokens"),
    ],
)
def test_what_is_wrong_is_said(text: str, said: str, file: Path) -> None:
    file.write_text(text, encoding="utf-8")
    with pytest.raises(BadModels, match=said.replace("[", r"\[")):
        model_of("writer")


def test_file_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BLACKBOARD_MODELS", "nowhere.toml")
    with pytest.raises(BadModels, match="cannot be read"):
        model_of("writer")


@pytest.mark.parametrize(
    ("tokens", "micro_usd"), [((0, 0, 0), 0), ((1, 0, 0), 1), ((1_000_000, 1_000, 400_000), 162_000)]
)
def test_calls_are_never_free_and_add_up(tokens: tuple[int, int, int], micro_usd: int) -> None:
    priced = Model(name="m", usd_per_million_input=0.25, usd_per_million_output=2, usd_per_million_cached=0.025)
    assert priced.micro_usd(*tokens) == micro_usd
