"""Recorded histories as files: a log, or what belongs to one run of it, as lines of JSON that a person can read.

First line: `{"history": 1, log, board, run, upto, floor}`. Then one line a message, in order of sequence: `{seq,
subject, time_ms, headers?, text}`, or `data` in base64 instead of `text` where the bytes are not UTF-8. Last line:
`{"messages": n, "sha256": ...}`, the digest of all bytes before it, so a file that was cut or changed is not read.
"""

import base64
import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Literal, TypeVar

import msgspec
from msgspec import Struct

from blackboard.log import Message

T = TypeVar("T")


class BadHistoryFile(ValueError):
    """The file is no recorded history, or not as it was written."""

    exit_code = 1


class Header(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`run` is empty where the file holds the whole log; `upto` is the last sequence that could be in it; every input
    at or below `floor` was decided then."""

    history: Literal[1] = 1
    log: str
    board: str
    run: str = ""
    upto: int
    floor: int


class Trailer(Struct, frozen=True, forbid_unknown_fields=True):
    messages: int
    sha256: str


class _Line(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    seq: int
    subject: str
    time_ms: int
    headers: dict[str, str] | None = None
    text: str | None = None
    data: str | None = None


_header = msgspec.json.Decoder(Header)
_trailer = msgspec.json.Decoder(Trailer)
_line = msgspec.json.Decoder(_Line)


class HistoryWriter:
    """Writes to `out`, a line at a time; `close` writes the last one and leaves `out` open."""

    def __init__(self, out: BinaryIO, header: Header) -> None:
        self._out, self._sha256, self.messages = out, hashlib.sha256(), 0
        self._write(msgspec.json.encode(header))

    def add(self, message: Message) -> None:
        try:
            text, data = message.data.decode(), None
        except UnicodeDecodeError:
            text, data = None, base64.b64encode(message.data).decode()
        line = _Line(message.seq, message.subject, message.time_ms, message.headers, text, data)
        self._write(msgspec.json.encode(line))
        self.messages += 1

    def close(self) -> Trailer:
        trailer = Trailer(self.messages, self._sha256.hexdigest())
        self._write(msgspec.json.encode(trailer))
        return trailer

    def _write(self, line: bytes) -> None:
        self._sha256.update(line + b"\n")
        self._out.write(line + b"\n")


class HistoryFile:
    """A file that was found to be as it was written. `header`, `trailer`; iterate for its messages, as often as needed.

    Raises BadHistoryFile, OSError.
    """

    def __init__(self, path: Path | str) -> None:
        self._path = Path(path)
        sha256, lines, last = hashlib.sha256(), 0, b""
        with self._path.open("rb") as file:
            first = file.readline()
            self.header = self._read(_header, first, "the first line is not that of a recorded history")
            for line in file:
                sha256.update(last or first)
                lines, last = lines + 1, line
        self.trailer = self._read(_trailer, last, "it has no last line: it was cut off")
        if (self.trailer.messages, self.trailer.sha256) != (lines - 1, sha256.hexdigest()):
            raise BadHistoryFile(f"{self._path}: it is not as it was written: its digest is another one")

    def __iter__(self) -> Iterator[Message]:
        with self._path.open("rb") as file:
            file.readline()
            for _ in range(self.trailer.messages):
                yield self._message(file.readline())

    def _message(self, line: bytes) -> Message:
        read = self._read(_line, line, "a line is no message")
        data = (read.text or "").encode() if read.data is None else base64.b64decode(read.data)
        return Message(read.seq, read.subject, read.time_ms, data, read.headers)

    def _read(self, decoder: msgspec.json.Decoder[T], line: bytes, otherwise: str) -> T:
        try:
            return decoder.decode(line)
        except msgspec.MsgspecError as error:
            raise BadHistoryFile(f"{self._path}: {otherwise} ({error})") from None
