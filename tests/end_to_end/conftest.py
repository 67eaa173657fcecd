"""Processes of the command for end-to-end tests: whatever a test starts is ended with it, by its process id."""

import itertools
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from blackboard.board import Board, open_board
from blackboard.server import EmbeddedServer
from schemas.subjects import Subjects
from tests.end_to_end.support import PatchedProgram, Program, Start


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts `blackboard WORDS...` and returns the running program."""
    programs: list[Program] = []
    numbers = itertools.count(1)

    def start_one(*words: str, cwd: Path | None = None) -> Program:
        program = Program(words, tmp_path / f"{next(numbers)}-{words[0]}.out", cwd)
        programs.append(program)
        return program

    try:
        yield start_one
    finally:
        for program in programs:
            program.kill()


@pytest.fixture
def start_patched(tmp_path: Path) -> Iterator[Start]:
    """Starts `blackboard WORDS...` of another release: the first word is Python that runs before it."""
    programs: list[Program] = []

    def start_one(patch: str, *words: str) -> Program:
        programs.append(PatchedProgram(patch, words, tmp_path / f"patched-{len(programs)}-{words[0]}.out"))
        return programs[-1]

    try:
        yield start_one
    finally:
        for program in programs:
            program.kill()


@pytest.fixture
async def shared(server: EmbeddedServer, subjects: Subjects) -> AsyncIterator[Board]:
    """A board of this test alone, on the server that all tests share."""
    async with open_board(server.url, subjects.board, "test", create=True) as board:
        yield board


@pytest.fixture
def there(server: EmbeddedServer, subjects: Subjects) -> list[str]:
    """The options that name the board of `shared`."""
    return ["--nats", server.url, "--board", subjects.board]
