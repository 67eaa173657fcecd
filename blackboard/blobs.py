"""Blobs: values too large for the log, stored once under their SHA-256. Promises only.

One suite, tests/blackboard/test_blobs_contract.py, tests both implementations.
"""

from typing import Protocol


class BlobMissing(Exception):
    """No blob has that digest."""


class BlobDamaged(Exception):
    """What is stored under the digest does not have it."""


class BlobsUnavailable(Exception):
    """No answer in time. Ask again."""


class Blobs(Protocol):
    async def put(self, data: bytes, author: str) -> str:
        """Store `data` under the name of `author`, a token, and return its SHA-256 in hex. Nobody can replace what
        another one stored. Storing the same bytes again costs one look-up. Raises BlobsUnavailable."""
        ...

    async def get(self, sha256: str) -> bytes:
        """The bytes with that digest, whoever stored them, verified; what is stored there and has another digest is
        passed over while there is a right copy. Raises BlobMissing, BlobDamaged, BlobsUnavailable."""
        ...
