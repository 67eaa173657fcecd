"""The files of a stream on a stopped server, read and written as the server does it, checksums included: what somebody
can do who has the disk.

A record is `length (4, the highest bit: has headers) | sequence (8) | time in ns (8) | subject length (2) | subject |
header length (4) | headers | data | checksum (8)`, all little-endian; the checksum is HighwayHash-64, keyed by SHA-256
of `<stream>-<block>`, over sequence, time, subject, headers and data. Source: nats-server, server/filestore.go.
"""

import hashlib
import struct
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from msgspec import Struct

HEADERS = 1 << 31
_FIXED = struct.Struct("<IQQH")
_CHECKSUM = 8
_64 = (1 << 64) - 1
_32 = (1 << 32) - 1


class Stored(Struct, frozen=True):
    """One record. `headers` are the bytes as they were published, empty for none."""

    seq: int
    time_ns: int
    subject: str
    headers: bytes
    data: bytes


def read(stream: Path) -> list[Stored]:
    """The records of a stream's folder; fails where a checksum does not fit, so that we know what we write."""
    found: list[Stored] = []
    for block in sorted((stream / "msgs").glob("*.blk"), key=lambda path: int(path.stem)):
        found += (one for one, _ in raw(block))
    return found


def raw(block: Path) -> Iterator[tuple[Stored, bytes]]:
    """The records of one file, each with its bytes."""
    return _records(block.read_bytes(), _key(block.parents[1].name, int(block.stem)))


def write(stream: Path, records: Iterable[Stored]) -> None:
    """Put these records in the place of all that is there. The server makes its index anew."""
    folder = stream / "msgs"
    for path in folder.iterdir():
        path.unlink()
    key = _key(stream.name, 1)
    (folder / "1.blk").write_bytes(b"".join(_record(one, key) for one in records))


def change(stream: Path, edit: Callable[[list[Stored]], Iterable[Stored]]) -> None:
    write(stream, edit(read(stream)))


def _records(raw: bytes, key: list[int]) -> Iterator[tuple[Stored, bytes]]:
    at = 0
    while at < len(raw):
        length, seq, time_ns, size = _FIXED.unpack_from(raw, at)
        end = at + (length & ~HEADERS)
        rest = raw[at + _FIXED.size : end - _CHECKSUM]
        subject, rest, headers = rest[:size], rest[size:], b""
        if length & HEADERS:
            size = int.from_bytes(rest[:4], "little")
            headers, rest = rest[4 : 4 + size], rest[4 + size :]
        one = Stored(seq, time_ns, subject.decode(), headers, rest)
        assert _record(one, key) == raw[at:end], f"another form of records than this one, at sequence {seq}"
        yield one, raw[at:end]
        at = end


def _record(one: Stored, key: list[int]) -> bytes:
    subject = one.subject.encode()
    body = subject + (struct.pack("<I", len(one.headers)) + one.headers if one.headers else b"") + one.data
    length = _FIXED.size + len(body) + _CHECKSUM
    fixed = _FIXED.pack(length | (HEADERS if one.headers else 0), one.seq, one.time_ns, len(subject))
    checksum = highway_hash_64(key, fixed[4:20] + subject + one.headers + one.data)
    return fixed + body + checksum.to_bytes(_CHECKSUM, "little")


def _key(stream: str, block: int) -> list[int]:
    return list(struct.unpack("<4Q", hashlib.sha256(f"{stream}-{block}".encode()).digest()))


# --- HighwayHash-64, of which no package for this Python could be found -------------------------------------------

_MUL0 = (0xDBE6D5D5FE4CCE2F, 0xA4093822299F31D0, 0x13198A2E03707344, 0x243F6A8885A308D3)
_MUL1 = (0x3BD39E10CB0EF593, 0xC0ACF169B5F18A8C, 0xBE5466CF34E90C6C, 0x452821E638D01377)


class _State:
    def __init__(self, key: list[int]) -> None:
        self.mul0, self.mul1 = list(_MUL0), list(_MUL1)
        self.v0 = [one ^ part for one, part in zip(_MUL0, key, strict=True)]
        self.v1 = [one ^ _swap(part) for one, part in zip(_MUL1, key, strict=True)]

    def update(self, lanes: Iterable[int]) -> None:
        v0, v1, mul0, mul1 = self.v0, self.v1, self.mul0, self.mul1
        for i, lane in enumerate(lanes):
            v1[i] = (v1[i] + mul0[i] + lane) & _64
            mul0[i] ^= (v1[i] & _32) * (v0[i] >> 32)
            v0[i] = (v0[i] + mul1[i]) & _64
            mul1[i] ^= (v0[i] & _32) * (v1[i] >> 32)
        for source, target in ((v1, v0), (v0, v1)):
            for i in (0, 2):
                low, high = _zipped(source[i + 1], source[i])
                target[i], target[i + 1] = (target[i] + low) & _64, (target[i + 1] + high) & _64

    def remainder(self, rest: bytes) -> None:
        size, last = len(rest), len(rest) & 3
        self.v0 = [(one + (size << 32) + size) & _64 for one in self.v0]
        self.v1 = [_rotated(one & _32, size) | _rotated(one >> 32, size) << 32 for one in self.v1]
        whole, tail = rest[: size & ~3], rest[size & ~3 :]
        packet = bytearray(whole.ljust(32, b"\0"))
        if size & 16:
            packet[28:32] = rest[-4:]
        elif last:
            packet[16:19] = bytes([tail[0], tail[last >> 1], tail[last - 1]])
        self.update(struct.unpack("<4Q", packet))

    def finish(self) -> int:
        for _ in range(4):
            a, b, c, d = self.v0
            self.update([_swap(c), _swap(d), _swap(a), _swap(b)])
        return (self.v0[0] + self.v1[0] + self.mul0[0] + self.mul1[0]) & _64


def highway_hash_64(key: list[int], data: bytes) -> int:
    state, whole = _State(key), len(data) & ~31
    for at in range(0, whole, 32):
        state.update(struct.unpack_from("<4Q", data, at))
    if len(data) > whole:
        state.remainder(data[whole:])
    return state.finish()


def _swap(value: int) -> int:
    return value >> 32 | (value & _32) << 32


def _rotated(half: int, by: int) -> int:
    return (half << by | half >> (32 - by)) & _32


def _zipped(v1: int, v0: int) -> tuple[int, int]:
    low = (
        ((v0 & 0xFF000000) | (v1 & 0xFF00000000)) >> 24
        | ((v0 & 0xFF0000000000) | (v1 & 0xFF000000000000)) >> 16
        | v0 & 0xFF0000
        | (v0 & 0xFF00) << 32
        | (v1 & 0xFF00000000000000) >> 8
        | (v0 << 56) & _64
    )
    high = (
        ((v1 & 0xFF000000) | (v0 & 0xFF00000000)) >> 24
        | v1 & 0xFF0000
        | (v1 & 0xFF0000000000) >> 16
        | (v1 & 0xFF00) << 24
        | (v0 & 0xFF000000000000) >> 8
        | (v1 & 0xFF) << 48
        | v0 & 0xFF00000000000000
    )
    return low, high
