"""The file that a backup is: frames, each of four bytes (its length, big-endian) and that many bytes of content.

First a line that says what the file is, then the header, in JSON. For each stream of the header a part: its beginning,
chunks as the server sent them, an empty frame, its end. Last the end of the file, with the digest of all bytes before
it, so a file that was cut or changed is not used. Nothing here knows the server.
"""

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple, TypeVar

import msgspec
from msgspec import Struct

MAGIC = b"blackboard backup\n"
FRAME_LIMIT_BYTES = 4 * 1024 * 1024
"""No frame is larger, so a file that is none takes no memory."""
_LENGTH_BYTES = 4

T = TypeVar("T")


class BadBackupFile(ValueError):
    """The file is no backup, or not as it was written; the text says which."""

    exit_code = 1


class Header(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`log` is the id of the board's log, `last` the sequence of its last message in here; `streams` are the names of
    the parts, in order."""

    format: Literal[1] = 1
    board: str
    log: str
    last: int
    streams: list[str]


class Beginning(Struct, frozen=True, forbid_unknown_fields=True):
    """Of a part: the stream as the server described it when the copy began."""

    stream: str
    config: dict[str, Any]
    state: dict[str, Any]


class Ending(Struct, frozen=True, forbid_unknown_fields=True):
    """Of a part: the bytes of its chunks, and their digest."""

    bytes: int
    sha256: str


class Trailer(Struct, frozen=True, forbid_unknown_fields=True):
    """Of the file: the digest of all bytes before it."""

    sha256: str


class Part(NamedTuple):
    """One stream in a file that was found to be whole; its chunks begin at `offset`."""

    beginning: Beginning
    offset: int
    ending: Ending

    @property
    def stream(self) -> str:
        return self.beginning.stream


class BackupWriter:
    """Writes to `out`, a frame at a time, and leaves it open."""

    def __init__(self, out: BinaryIO, header: Header) -> None:
        self._out, self._whole, self._part = out, hashlib.sha256(), hashlib.sha256()
        self.bytes = self._part_bytes = 0
        self._write(MAGIC)
        self._frame(msgspec.json.encode(header))

    def begin(self, beginning: Beginning) -> None:
        self._part, self._part_bytes = hashlib.sha256(), 0
        self._frame(msgspec.json.encode(beginning))

    def add(self, chunk: bytes) -> None:
        """A chunk of the part that was begun; not empty."""
        self._part.update(chunk)
        self._part_bytes += len(chunk)
        self._frame(chunk)

    def end(self) -> None:
        self._frame(b"")
        self._frame(msgspec.json.encode(Ending(self._part_bytes, self._part.hexdigest())))

    def close(self) -> Trailer:
        trailer = Trailer(self._whole.hexdigest())
        self._frame(msgspec.json.encode(trailer))
        return trailer

    def _frame(self, content: bytes) -> None:
        self._write(len(content).to_bytes(_LENGTH_BYTES, "big") + content)

    def _write(self, raw: bytes) -> None:
        self._whole.update(raw)
        self._out.write(raw)
        self.bytes += len(raw)


class BackupFile:
    """A backup. Making it reads `header` alone; `check` reads all of it, and gives `parts` and `trailer`.

    Raises BadBackupFile, OSError.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self.bytes = self.path.stat().st_size
        self.parts: list[Part] = []
        self.trailer: Trailer | None = None
        with self.path.open("rb") as file:
            self.header = self._read_header(_Frames(self.path, file))

    def check(self, tell: Callable[[int], object] = lambda _: None) -> None:
        """Read all of it and compare the digests. `tell` hears how many bytes were read, again and again."""
        parts: list[Part] = []
        with self.path.open("rb") as file:
            frames = _Frames(self.path, file)
            header = self._read_header(frames)
            for stream in header.streams:
                beginning = frames.read(Beginning)
                offset, sha256, size = frames.position, hashlib.sha256(), 0
                while chunk := frames.next():
                    sha256.update(chunk)
                    size += len(chunk)
                    tell(frames.position)
                ending = frames.read(Ending)
                if (beginning.stream, ending) != (stream, Ending(size, sha256.hexdigest())):
                    raise frames.bad(f"part {stream} is not as it was written: its digest is another one")
                parts.append(Part(beginning, offset, ending))
            whole = frames.sha256.hexdigest()
            trailer = frames.read(Trailer)
            if trailer.sha256 != whole or file.read(1):
                raise frames.bad("it is not as it was written: its digest is another one")
        self.header, self.parts, self.trailer = header, parts, trailer

    def chunks(self, part: Part) -> Iterator[bytes]:
        """What the part holds. Raises BadBackupFile, at the end at the latest, when it changed since `check`."""
        sha256 = hashlib.sha256()
        with self.path.open("rb") as file:
            file.seek(part.offset)
            frames = _Frames(self.path, file)
            while chunk := frames.next():
                sha256.update(chunk)
                yield chunk
        if sha256.hexdigest() != part.ending.sha256:
            raise frames.bad("it was changed while it was read")

    def _read_header(self, frames: "_Frames") -> Header:
        if frames.take(len(MAGIC)) != MAGIC:
            raise frames.bad("it is no backup of a board")
        return frames.read(Header)


class _Frames:
    """Reads frame after frame, and digests what it reads."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self._path, self._file = path, file
        self.sha256 = hashlib.sha256()
        self.position = file.tell()

    def take(self, size: int) -> bytes:
        raw = self._file.read(size)
        self.sha256.update(raw)
        self.position += len(raw)
        return raw

    def next(self) -> bytes:
        length = self.take(_LENGTH_BYTES)
        size = int.from_bytes(length, "big")
        if size > FRAME_LIMIT_BYTES:
            raise self.bad("it is not as it was written: a frame is too large")
        content = self.take(size)
        if len(length) < _LENGTH_BYTES or len(content) < size:
            raise self.bad("it ends too early: it was cut off")
        return content

    def read(self, kind: type[T]) -> T:
        try:
            return msgspec.json.decode(self.next(), type=kind)
        except msgspec.MsgspecError as error:
            raise self.bad(f"it is not as it was written, or by a newer release ({error})") from None

    def bad(self, why: str) -> BadBackupFile:
        return BadBackupFile(f"{self._path}: {why}")
