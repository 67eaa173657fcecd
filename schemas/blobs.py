"""Blobs: how a value names bytes that are too large to stand in it.

Pure. The bytes lie on the board's stream of blobs, under their digest.
"""

from typing import Annotated

from pydantic import Field

from schemas.goals import Artefact


class Blob(Artefact):
    """The name of stored bytes: `sha256` in lower-case hex, `size` in bytes."""

    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    size: int = Field(ge=0)
    media_type: str = Field(default="application/octet-stream", max_length=200)
