"""Each line of a document that calls `blackboard` is one that the command takes: its verbs and options exist, and what
they need is given. This is for lines that no walk does, since they need other machines, other people, or time."""

import re
import shlex
from pathlib import Path

import click
import pytest
from markdown_it import MarkdownIt

from blackboard.cli import cli
from tests.docs.walk import COMMANDS, ROOT

DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), ROOT / "docker-compose.yml"]
CALL = re.compile(
    r"^\s*(?:# +|\$ |\w+=\S* )*(?:blackboard|docker compose (?:run --rm|exec) [\w-]+) (?=[\w@-])(.*)$", re.MULTILINE
)
"""A call of the command in a block: after a prompt or a variable, in a container, or in the comment of a YAML file."""


@pytest.fixture(autouse=True)
def _no_file_need_be_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(click.Path, "convert", lambda _self, value, *_: value)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_command_takes_each_line(document: Path) -> None:
    for line in calls(document):
        try:
            parse(line)
        except (click.UsageError, ValueError) as error:
            pytest.fail(f"{document.name}: `blackboard {line}`: {error}")


def test_the_lines_are_found() -> None:
    found = {str(document.relative_to(ROOT)): calls(document) for document in DOCUMENTS}
    assert len(found["README.md"]) > 20
    assert len(found["docs/deploying.md"]) > 25
    assert "publish licences path=/audited --wait" in found["docker-compose.yml"]
    assert "eval examples/judging_team.py" in found["docs/evaluating.md"]
    assert any("--witness git:/srv/heads#origin" in line for line in found["docs/auditing.md"])  # it is continued


@pytest.mark.parametrize(
    "line",
    [
        "permit ann",
        "access permit ann",
        "access grant --role auditor",
        "access grant ann --role king",
        "create --copies 3",
        "create --replicas 9",
        "create main",
        "restore",
        "show @last extra",
    ],
)
def test_what_the_command_does_not_take_is_found(line: str) -> None:
    with pytest.raises(click.UsageError):
        parse(line)


def calls(document: Path) -> list[str]:
    text = document.read_text()
    if document.suffix == ".md":
        fences = [token for token in MarkdownIt().parse(text) if token.type == "fence"]
        text = "\n".join(fence.content for fence in fences if fence.info in COMMANDS)
    return CALL.findall(re.sub(r"\\\n\s*", "", text))


def parse(line: str) -> None:
    """Raises UsageError for what the command would not take. Nothing is run."""
    command: click.Command = cli
    context = command.make_context("blackboard", shell_words(line))
    while isinstance(command, click.Group):
        name, found, words = command.resolve_command(context, [*context._protected_args, *context.args])
        assert found is not None
        command, context = found, found.make_context(name, words, parent=context)


def shell_words(line: str) -> list[str]:
    """The words of the call, up to a comment, and to what its output goes to."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words = list(lexer)
    ends = [n for n, word in enumerate(words) if word and set(word) <= set(";&|<>()")]
    return words[: ends[0]] if ends else words
