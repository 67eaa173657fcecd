"""A document as a list of things to do, and a walk through it: every command block is run, in order, as a reader would.

An HTML comment before a block, which no reader sees, says what a program cannot guess:

    <!-- walk: file names.py -->              the block is the content of a file
    <!-- walk: make -->                       commands of make, of which `make -n` is run: that the targets exist
    <!-- walk: background; until attached -->  a command that goes on, and what it says when the next one may come
    <!-- walk: ends blackboard up -->         Ctrl-C for that command first; may stand with the others
    <!-- walk
    exits 7
    types y; prints ... digest ...
    -
    -->                                       one line for each command of the block; `-`: nothing to say of it

A command without such a line ends with exit code 0. A block of `text` after it is what it prints. Both are compared in
shape: numbers and digests may differ, white space does not count, and `...` stands for anything.
"""

import os
import re
import shlex
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).parents[2]
DOCUMENTS = ("README.md", "docs/attach.md", "docs/merging.md", "docs/research.md", "docs/topologies.md")
COMMANDS = ("", "sh")
"""How the fences of command blocks are marked."""
NOT_COMMANDS = ("json", "mermaid", "python", "text", "toml", "yaml")
WORDS = ("file", "make", "background", "until", "ends", "exits", "types", "prints")
PATIENCE_S = 90.0
SHOWN = 2_000
"""Characters of an output that a complaint shows."""
_COMMENT = re.compile(r"<!-- walk:?\s(?P<said>.*?)-->", re.DOTALL)
_NEXT = re.compile(rf";\s*(?=(?:{'|'.join(WORDS)})\b)")
_VARIABLE = re.compile(
    r"(?P<any>\s*(\.\.\.|…)\s*)|(?P<hex>\b(?=[a-f]*\d)[0-9a-f]{8,}\b)|(?P<number>\d+)|(?P<blank>\s+)"
)
_PATTERNS = {"any": r"(.*)", "hex": r"[0-9a-f]+", "number": r"\d+", "blank": r"\s+"}


class Wrong(Exception):
    """A document cannot be walked, or something in it is not so. Says where."""


@dataclass
class Command:
    """One command, and what is known of it. `text` is None where nobody says what it prints."""

    where: str
    line: str
    text: str | None = None
    code: int = 0
    typed: str = ""
    until: str | None = None
    ends: str = ""

    @property
    def in_background(self) -> bool:
        return self.until is not None


@dataclass
class File:
    where: str
    name: str
    text: str


@dataclass
class Walk:
    """The steps of one document, in order."""

    steps: list[Command | File] = field(default_factory=list)

    @property
    def commands(self) -> list[Command]:
        return [step for step in self.steps if isinstance(step, Command)]


def read_walk(name: str, text: str) -> Walk:
    """Raises Wrong where a comment or a fence is not understood."""
    walk, said = Walk(), ""
    for token in MarkdownIt().parse(text):
        where = f"{name}:{token.map[0] + 1 if token.map else 0}"
        if token.type == "html_block":
            found = _COMMENT.search(token.content)
            said = found["said"].strip() if found else ""
        elif token.type == "fence":
            _add_block(walk, token, where, said)
            said = ""
        elif said and token.level == 0:
            raise Wrong(f"{where}: no block follows the comment {said!r}")
    return walk


def _add_block(walk: Walk, token: Token, where: str, said: str) -> None:
    lines = [_words(line, where) for line in said.splitlines()]
    if lines and "file" in lines[0]:
        walk.steps.append(File(where, lines[0]["file"], token.content))
    elif token.info in COMMANDS:
        walk.steps += _commands(token.content, where, lines)
    elif token.info == "text":
        if walk.steps and isinstance(last := walk.steps[-1], Command):
            last.text = token.content
    elif token.info == "python":
        compile(token.content, where, "exec")
    elif token.info not in NOT_COMMANDS:
        raise Wrong(f"{where}: a fence is marked {token.info!r}; mark commands {COMMANDS}, others {NOT_COMMANDS}")


def _words(line: str, where: str) -> dict[str, str]:
    """`exits 7; prints ...` by its words."""
    if line.strip() == "-":
        return {}
    told = dict(part.strip().partition(" ")[::2] for part in _NEXT.split(line))
    if unknown := [word for word in told if word not in WORDS]:
        raise Wrong(f"{where}: the comment says {unknown[0]!r}; it may say {', '.join(WORDS)}")
    return told


def _commands(text: str, where: str, lines: list[dict[str, str]]) -> Iterator[Command]:
    """Continued lines are one command."""
    commands = re.sub(r"\\\n\s*", "", text).strip().split("\n")
    if lines and "make" in lines[0]:
        for command in commands:
            yield Command(where, re.sub(r"^make\b", "make -n", command))
        return
    if len(lines) not in (0, len(commands)):
        raise Wrong(f"{where}: {len(commands)} commands, and {len(lines)} lines in the comment; one for each")
    for command, told in zip(commands, lines or [{}] * len(commands), strict=True):
        if ("background" in told) != ("until" in told):
            raise Wrong(f"{where}: background needs `until TEXT`")
        yield Command(
            where,
            command,
            told.get("prints"),
            int(told.get("exits", 0)),
            told.get("types", ""),
            told.get("until"),
            told.get("ends", ""),
        )


def same_shape(expected: str, said: str) -> bool:
    """Whether `said` is like `expected`, but for numbers, digests, white space and what `...` stands for."""
    pattern, at, expected = "", 0, expected.strip()
    for found in _VARIABLE.finditer(expected):
        assert found.lastgroup is not None
        pattern += re.escape(expected[at : found.start()]) + _PATTERNS[found.lastgroup]
        at = found.end()
    return re.fullmatch(pattern + re.escape(expected[at:]), said.strip(), re.DOTALL) is not None


class Reader:
    """Somebody who does what documents say, in one folder. What goes on in the background ends with the reader."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.folder, self._environment = folder, environment
        self._background: list[tuple[Command, subprocess.Popen[bytes], Path]] = []
        self.done = 0

    def __enter__(self) -> "Reader":
        return self

    def __exit__(self, *_: object) -> None:
        for _, process, _ in reversed(self._background):
            _end(process)

    def follow(self, walk: Walk) -> None:
        """Raises Wrong at the first step that is not as the document says."""
        for step in walk.steps:
            if isinstance(step, File):
                (self.folder / step.name).write_text(step.text)
                continue
            self._end_of(step.ends)
            if step.in_background:
                self._start(step)
            else:
                self._run(step)
            self.done += 1

    def _run(self, command: Command) -> None:
        try:
            ended = subprocess.run(
                ["bash", "-c", command.line],
                cwd=self.folder,
                env=self._environment,
                input=f"{command.typed}\n".encode() if command.typed else b"",
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=PATIENCE_S,
            )
        except subprocess.TimeoutExpired as error:
            said = (error.stdout or b"").decode()
            raise Wrong(
                f"{command.where}: `{command.line}` did not end: {said[-SHOWN:]}{self._background_said()}"
            ) from None
        said = ended.stdout.decode()
        last = f"{said[-SHOWN:]}{self._background_said()}"
        if ended.returncode != command.code:
            why = f"ended with {ended.returncode}, not {command.code}"
            raise Wrong(f"{command.where}: `{command.line}` {why}: {last}")
        if command.text is not None and not same_shape(command.text, said):
            raise Wrong(f"{command.where}: `{command.line}` is to print\n{command.text}\nand prints\n{last}")

    def _start(self, command: Command) -> None:
        output = self.folder / f".walk-{len(self._background)}.out"
        with output.open("wb") as said:
            process = subprocess.Popen(
                ["bash", "-c", f"exec {command.line}"],
                cwd=self.folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._background.append((command, process, output))
        deadline = time.monotonic() + PATIENCE_S
        assert command.until is not None
        while not same_shape(f"...{command.until}...", output.read_text()):
            if process.poll() is not None or time.monotonic() > deadline:
                raise Wrong(f"{command.where}: `{command.line}` never said {command.until!r}: {output.read_text()}")
            time.sleep(0.05)

    def _end_of(self, beginning: str) -> None:
        for command, process, _ in self._background if beginning else []:
            if command.line.startswith(beginning) and process.poll() is None:
                process.send_signal(signal.SIGINT)
                process.wait(PATIENCE_S)
                return
        if beginning:
            raise Wrong(f"nothing that begins with {beginning!r} runs in the background")

    def _background_said(self) -> str:
        return "".join(
            f"\n--- {shlex.quote(command.line)}:\n{out.read_text()[-SHOWN:]}" for command, _, out in self._background
        )


def _end(process: "subprocess.Popen[bytes]") -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
