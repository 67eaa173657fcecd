"""Keys, signed claims and credentials files, as NATS has them.

A user's credentials hold a JWT, signed by an account's key, with what the user may do, and the seed of the user's own
key, with which it proves to the server that it is that user.
Source: NATS architecture decision record 14 (JWT library) and the reference `nats-io/jwt`, version 2 of the claims.
"""

import base64
import contextlib
import hashlib
import itertools
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple, Self

import nkeys
from nacl.signing import SigningKey

from blackboard.log import LogError

PREFIXES = {
    "operator": nkeys.PREFIX_BYTE_OPERATOR,
    "account": nkeys.PREFIX_BYTE_ACCOUNT,
    "user": nkeys.PREFIX_BYTE_USER,
}
_BEGIN_JWT, _BEGIN_SEED = "BEGIN NATS USER JWT", "BEGIN USER NKEY SEED"


class BadCredentials(LogError):
    """A credentials file cannot be read; the text says what to do."""

    exit_code = 2


class Key:
    """A key pair of an operator, an account or a user."""

    def __init__(self, seed: str) -> None:
        """Raises ValueError where `seed` is none."""
        try:
            prefix, raw = nkeys.decode_seed(seed.encode())
        except nkeys.NkeysError:
            raise ValueError("it is no seed of a NATS key") from None
        self.seed = seed
        self._signing = SigningKey(bytes(raw))
        public = bytes([prefix]) + bytes(self._signing.verify_key)
        self.public = _base32(public + nkeys.crc16_checksum(bytearray(public)))

    @classmethod
    def make(cls, kind: str) -> Self:
        """A new random one; `kind` is one of PREFIXES."""
        return cls(nkeys.encode_seed(os.urandom(32), PREFIXES[kind]).decode())

    def sign(self, data: bytes) -> bytes:
        return self._signing.sign(data).signature


def signed(issuer: Key, subject: str, name: str, claims: dict[str, Any], now_s: int, expires_s: int = 0) -> str:
    """A JWT in which `issuer` says `claims` of the key `subject`, from `now_s` (seconds since 1970) on, for `expires_s`
    seconds (0: for ever)."""
    body = {"iat": now_s, "iss": issuer.public, "name": name, "sub": subject, "nats": {"version": 2, **claims}}
    if expires_s:
        body["exp"] = now_s + expires_s
    body["jti"] = _base32(hashlib.new("sha512_256", _json(body)).digest())
    text = f"{_base64(_json({'typ': 'JWT', 'alg': 'ed25519-nkey'}))}.{_base64(_json(body))}"
    return f"{text}.{_base64(issuer.sign(text.encode()))}"


def claims_of(jwt: str) -> dict[str, Any]:
    """What a JWT says; nobody's signature is checked. Raises ValueError."""
    body = jwt.split(".")[1] if jwt.count(".") == 2 else ""
    found = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    if not isinstance(found, dict):
        raise ValueError("its claims are no object")
    return found


class Credentials(NamedTuple):
    """What a user connects with."""

    jwt: str
    seed: str

    @property
    def name(self) -> str:
        """For people: the roles and names that it was granted."""
        return str(claims_of(self.jwt).get("name", ""))

    @property
    def public(self) -> str:
        return str(claims_of(self.jwt)["sub"])

    @property
    def inbox(self) -> str:
        """The prefix under which it hears answers; no other user may listen there."""
        return inbox_of(self.public)

    @property
    def in_agents(self) -> bool:
        """Whether it belongs to the account AGENTS, where JetStream's API has another name and no consumer can be
        made."""
        return self._tag("account") == "AGENTS"

    @property
    def author(self) -> str:
        """The name that it may write under; empty where it was granted several."""
        return self._tag("name")

    @property
    def board(self) -> str:
        """The board that it was granted for; empty where it says none."""
        return self._tag("board")

    @property
    def subscriptions(self) -> int:
        """How many a connection may have; below 0: any number."""
        return int(claims_of(self.jwt).get("nats", {}).get("subs", -1))

    def _tag(self, name: str) -> str:
        tags = claims_of(self.jwt).get("nats", {}).get("tags", [])
        return next((tag.partition(":")[2] for tag in tags if tag.startswith(f"{name}:")), "")

    @property
    def text(self) -> str:
        """As a credentials file, which any NATS client reads."""
        return (
            f"-----{_BEGIN_JWT}-----\n{self.jwt}\n------END NATS USER JWT------\n\n"
            f"-----{_BEGIN_SEED}-----\n{self.seed}\n------END USER NKEY SEED------\n"
        )


def tags_of(account: str, names: Sequence[str], board: str) -> list[str]:
    """What credentials say of themselves to whoever uses them; the server does not look."""
    return [f"account:{account}", f"board:{board}", *([f"name:{names[0]}"] if len(names) == 1 else [])]


def inbox_of(public: str) -> str:
    return f"_INBOX.{public}"


def read_credentials(path: Path | str) -> Credentials:
    """The credentials in a file. Raises BadCredentials."""
    try:
        lines = Path(path).read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise BadCredentials(f"the credentials {path} cannot be read: {error}") from None
    found = [
        next((after.strip() for line, after in itertools.pairwise(lines) if begin in line), "")
        for begin in (_BEGIN_JWT, _BEGIN_SEED)
    ]
    try:
        credentials = Credentials(*found)
        if Key(credentials.seed).public != credentials.public:
            raise ValueError("the key in it is not the one that it names")
    except (ValueError, KeyError) as error:
        why = str(error) if isinstance(error, ValueError) else "it names no key"
        raise BadCredentials(
            f"{path} is no credentials file of NATS ({why}): make one with `blackboard access grant`"
        ) from None
    return credentials


@contextlib.contextmanager
def private_file(path: Path) -> Iterator[IO[str]]:
    """A file that only its owner can read. It is at `path` once the block has ended; where that fails, none is. Raises
    OSError."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    fresh = path.with_name(f".{path.name}.new")
    fresh.unlink(missing_ok=True)
    try:
        with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            yield file
        fresh.replace(path)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner can read, in one step. Raises OSError."""
    with private_file(path) as file:
        file.write(text)


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _base32(data: bytes | bytearray) -> str:
    return base64.b32encode(data).decode().rstrip("=")
