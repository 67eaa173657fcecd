"""The notary's key: a file that only its owner reads, and the public key beside it, which auditors keep."""

import os
import re
import stat
from pathlib import Path

from nacl.signing import SigningKey

from blackboard.client import BadInput
from projections.notary import public_of

_HEX = re.compile(r"[0-9a-f]{64}")


def make_key(name: str) -> str:
    """Make a key in the file `name` (0600), which must not exist. The public key, which is also in `name`.pub, in hex.
    Raises BadInput, OSError."""
    key, path = SigningKey.generate(), Path(name).expanduser()
    try:
        made = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise BadInput(f"{path} exists, and what a key has signed needs that key: choose another name") from None
    with os.fdopen(made, "w") as file:
        file.write(bytes(key).hex() + "\n")
    Path(f"{path}.pub").write_text(public_of(key) + "\n")
    return public_of(key)


def read_key(name: str) -> SigningKey:
    """Raises BadInput."""
    path = Path(name).expanduser()
    try:
        text, mode = path.read_text().strip(), path.stat().st_mode
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{path} cannot be read as a key: {error}; `blackboard notarize --init-key` makes one") from None
    if stat.S_IMODE(mode) & 0o077:
        raise BadInput(f"others than you can read {path}: `chmod 600 {path}`")
    if not _HEX.fullmatch(text):
        raise BadInput(f"{path} is no key: it does not hold 64 hex digits; `blackboard notarize --init-key` makes one")
    return SigningKey(bytes.fromhex(text))


def read_public(text: str) -> str:
    """A public key: 64 hex digits, or the name of a file that holds them. Raises BadInput."""
    if _HEX.fullmatch(text):
        return text
    try:
        held = Path(text).read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(
            f"{text[:80]!r} is no public key of 64 hex digits, and no file that can be read: {error}"
        ) from None
    if not _HEX.fullmatch(held):
        raise BadInput(f"{text} holds no public key: 64 hex digits")
    beside = Path(f"{text}.pub")
    if beside.is_file() and beside.read_text().strip() == public_of(SigningKey(bytes.fromhex(held))):
        raise BadInput(f"{text} is the notary's key itself, with which one can sign: name {beside}")
    return held
