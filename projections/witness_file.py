"""A file as a witness: lines are appended to it, each synced to the disk. One notary at a time writes it."""

import asyncio
import fcntl
import os
from collections.abc import AsyncGenerator
from io import FileIO
from pathlib import Path

from projections.witness import WitnessUnavailable

PIECE = 65_536


class FileWitness:
    def __init__(self, path: Path) -> None:
        self.name = f"file:{path}"
        self._path = path
        self._out: FileIO | None = None

    async def claim(self) -> None:
        try:
            self._out = self._out or await asyncio.to_thread(_locked, self._path)
        except OSError as error:
            raise WitnessUnavailable(f"{self._path} cannot be written: {error.strerror}") from error

    async def read(self) -> AsyncGenerator[bytes, None]:
        if self._out is None and not await asyncio.to_thread(self._path.is_file):
            raise WitnessUnavailable(f"there is no file {self._path}, or it cannot be read")
        try:
            file = await asyncio.to_thread(self._path.open, "rb")
        except OSError as error:
            raise WitnessUnavailable(f"{self._path} cannot be read: {error.strerror}") from error
        with file:
            for line in file:
                if line.endswith(b"\n"):  # else whoever wrote it was killed in the middle, and writes it again
                    yield line.removesuffix(b"\n")

    async def append(self, number: int, line: bytes) -> None:
        await self.claim()
        try:
            await asyncio.to_thread(self._append, line)
        except OSError as error:
            raise WitnessUnavailable(f"{self._path} cannot be written: {error.strerror}") from error

    async def close(self) -> None:
        if self._out is not None:
            self._out.close()
            self._out = None

    def _append(self, line: bytes) -> None:
        assert self._out is not None
        end = self._out.seek(0, os.SEEK_END)
        try:
            left = memoryview(line + b"\n")
            while left:
                left = left[self._out.write(left) :]
            os.fsync(self._out.fileno())
        except OSError:
            self._out.truncate(end)  # so that a disk that is full leaves whole lines
            raise


def _locked(path: Path) -> FileIO:
    """The file, for this process alone, with whole lines in it. Raises OSError, WitnessUnavailable."""
    path.parent.mkdir(parents=True, exist_ok=True)
    out = FileIO(path, "ab+")
    try:
        fcntl.flock(out, fcntl.LOCK_EX | fcntl.LOCK_NB)
        out.truncate(_whole_lines(out))
        _sync_folder(path.parent)
    except BlockingIOError:
        out.close()
        raise WitnessUnavailable(f"another notary writes {path}: stop that one first") from None
    except OSError:
        out.close()
        raise
    return out


def _sync_folder(path: Path) -> None:
    """So that a file that is new there stays there."""
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _whole_lines(file: FileIO) -> int:
    """How many bytes of a file are whole lines."""
    end = file.seek(0, os.SEEK_END)
    while end:
        start = max(0, end - PIECE)
        file.seek(start)
        if (at := file.read(end - start).rfind(b"\n")) >= 0:
            return start + at + 1
        end = start
    return 0
