"""The operator's material: the keys from which every identity of a server comes, and what the server must know of them.

It lies in one directory, readable by its owner alone: the seeds of the operator and of the accounts, the accounts' own
JWTs, who was granted something, and `server.conf` for the server to include. A new identity is signed here and needs
nothing of the server; a revoked one is told to the server, which drops its connections at once.
Source: docs/access.md; what each role may do is `schemas.access`.
"""

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from blackboard.credentials import Credentials, Key, inbox_of, private_file, signed, tags_of, write_private
from blackboard.log import LogError
from blackboard.nats_connection import connect
from blackboard.server_files import MAX_PAYLOAD_BYTES, read_state
from schemas.access import RULES, Export, Role, Rule, account_of, exports, permissions
from schemas.subjects import SUPERVISOR, token

ENVIRONMENT = "BLACKBOARD_ACCESS"
FOLDER = "access"
ACCOUNTS = ("SYS", "BUS", "AGENTS")
UPDATE = "$SYS.REQ.CLAIMS.UPDATE"
SMALL_PAYLOAD_BYTES = 128 * 1024
"""For identities that append no values: answers and goals are smaller."""
CONTROL_LINE_BYTES = 64 * 1024
"""Credentials are one line when they connect: those of a worker with many specialists are longer than usual."""
SUBSCRIPTIONS = 256
"""Of one connection; whoever follows a run needs two."""
_NO_LIMITS = dict.fromkeys(("subs", "data", "payload", "imports", "exports", "conn", "leaf"), -1) | {"wildcards": True}
_STREAMS = dict.fromkeys(("mem_storage", "disk_storage", "streams", "consumer"), -1)
_FILES = {"operator": "operator.seed", **{name: f"{name}.seed" for name in ACCOUNTS}}


class AccessError(LogError):
    """The operator's material is not there, or not whole; the text says what to do."""

    exit_code = 2


class Granted(msgspec.Struct, frozen=True):
    """One identity that was granted: its public key, and when, in seconds since 1970. `revoked_s` is 0 while it
    holds, `until_s` where it does not expire."""

    public: str
    roles: tuple[Role, ...]
    names: tuple[str, ...]
    board: str
    at_s: int
    revoked_s: int = 0
    until_s: int = 0


class Access:
    """The operator's material in `directory`. Make it with `init`, else `load` it."""

    def __init__(self, directory: Path, keys: dict[str, Key]) -> None:
        self.directory, self._keys = directory, keys

    @classmethod
    def init(cls, directory: Path | str) -> "Access":
        """Make it. Raises AccessError where there is some already."""
        made = cls(
            Path(directory), {name: Key.make("operator" if name == "operator" else "account") for name in _FILES}
        )
        if is_there(made.directory):
            raise AccessError(f"{made.directory} holds an operator's keys already; whoever replaces them locks all out")
        made.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        made.directory.chmod(0o700)
        for name in ACCOUNTS:
            write_private(made.directory / _FILES[name], made._keys[name].seed + "\n")
            made._write_account(name)
        operator = made._keys["operator"]
        claims = {"type": "operator", "system_account": made._keys["SYS"].public}
        made._write("operator.jwt", signed(operator, operator.public, "blackboard", claims, _now_s()))
        made._write_server_conf()
        write_private(made.directory / _FILES["operator"], operator.seed + "\n")  # last: it says that all is there
        return made

    @classmethod
    def load(cls, directory: Path | str) -> "Access":
        """Raises AccessError."""
        directory = Path(directory)
        try:
            keys = {name: Key((directory / file).read_text().strip()) for name, file in _FILES.items()}
        except FileNotFoundError as error:
            raise AccessError(
                f"{error.filename} is not there: name the operator's directory with --dir, or make one with "
                "`blackboard access init`"
            ) from None
        except (OSError, ValueError) as error:
            raise AccessError(f"the operator's keys in {directory} cannot be read: {error}") from None
        return cls(directory, keys)

    # What the server must know

    def server_settings(self, resolver: Path | str) -> str:
        """Lines of the server's configuration; `resolver` is the directory where the server keeps account JWTs."""
        preload = "\n".join(f"  {self._keys[name].public}: {self._read(f'{name}.jwt')}" for name in ACCOUNTS)
        return "\n".join(
            [
                f"max_control_line: {CONTROL_LINE_BYTES}",
                f"operator: {self._read('operator.jwt')}",
                f"system_account: {self._keys['SYS'].public}",
                f'resolver {{ type: full, dir: {json.dumps(str(resolver))}, allow_delete: false, interval: "2m" }}',
                f"resolver_preload {{\n{preload}\n}}",
            ]
        )

    def _account(self, name: str) -> str:
        claims: dict[str, Any] = {"type": "account", "limits": dict(_NO_LIMITS), "default_permissions": {}}
        if name == "BUS":
            claims["limits"] |= _STREAMS
            claims["exports"] = [_export(one) for one in exports()]
        if name == "AGENTS":
            bus = self._keys["BUS"].public
            claims["imports"] = [
                {
                    "name": one.subject,
                    "subject": one.subject,
                    "account": bus,
                    "type": one.kind,
                    "local_subject": one.local,
                }
                for one in exports()
            ]
        if revoked := {one.public: one.revoked_s for one in self.granted() if one.revoked_s and _of(one) == name}:
            claims["revocations"] = revoked
        return signed(self._keys["operator"], self._keys[name].public, name, claims, _now_s())

    def _write_account(self, name: str) -> None:
        self._write(f"{name}.jwt", self._account(name))

    def _write_server_conf(self) -> None:
        text = "# For the NATS server: include it beside jetstream { sync_interval: always }.\n"
        self._write("server.conf", text + self.server_settings("./jwt"))

    # Identities

    def credentials(
        self,
        roles: Sequence[Role],
        names: Sequence[str],
        board: str = "main",
        expires_s: int = 0,
        rules: Sequence[Rule] = RULES,
    ) -> Credentials:
        """New credentials with exactly what the roles may do under these names; nobody is told. Raises ValueError and
        BadName."""
        if SUPERVISOR in names:
            raise ValueError(f"{SUPERVISOR!r} is who publishes the goals of child runs: choose another name")
        account, user = self._keys[account_of(roles)], Key.make("user")
        given = permissions(roles, names, board, inbox_of(user.public), rules)
        small = Role.SPECIALIST not in roles and account is self._keys["AGENTS"]
        claims = {
            "type": "user",
            "pub": _only(given.publish),
            "sub": _only(given.subscribe),
            "subs": -1 if Role.ADMIN in roles else SUBSCRIPTIONS + 8 * len(names),
            "data": -1,
            "payload": SMALL_PAYLOAD_BYTES if small else MAX_PAYLOAD_BYTES,
            "tags": tags_of(account_of(roles), names, board),
        }
        label = f"{'+'.join(roles)} {' '.join(token(name) for name in names)} on board {board}"
        return Credentials(signed(account, user.public, label, claims, _now_s(), expires_s), user.seed)

    def system(self) -> Credentials:
        """Credentials of the system account, which tells the server about accounts."""
        user = Key.make("user")
        claims = {"type": "user", "pub": {}, "sub": {}, "subs": -1, "data": -1, "payload": -1}
        return Credentials(signed(self._keys["SYS"], user.public, "system", claims, _now_s(), 60), user.seed)

    def grant(
        self, path: Path, roles: Sequence[Role], names: Sequence[str], board: str = "main", expires_s: int = 0
    ) -> Credentials:
        """Write new credentials into the file `path`, which only its owner can read, and remember whose they are.
        Raises AccessError where the file is there or cannot be written, ValueError, BadName."""
        given = self.credentials(roles, names, board, expires_s)
        at_s = _now_s()
        made = Granted(given.public, tuple(roles), tuple(names), board, at_s, 0, at_s + expires_s if expires_s else 0)
        try:
            with self._alone():
                if path.exists():
                    raise AccessError(f"{path} is there already: name another with --out, or remove it")
                self._hand_out(path, given, made)
        except OSError as error:
            raise AccessError(
                f"nothing is granted, since {error.filename or path} cannot be written ({error.strerror}): mend that, "
                "or name another file with --out"
            ) from None
        return given

    def _hand_out(self, path: Path, given: Credentials, made: Granted) -> None:
        """Remembered before a secret is on the disk, also where this process ends in between: of one that is not
        remembered nobody could take anything back. Raises OSError, and then nothing is remembered and no file there."""
        before = self.granted()
        try:
            with private_file(path) as file:
                self._remember([*before, made])
                file.write(given.text)
        except OSError:
            with contextlib.suppress(OSError):
                self._remember(before)
            raise

    def granted(self) -> list[Granted]:
        """All that were granted something, the revoked ones too. Raises AccessError."""
        path = self.directory / "granted.json"
        try:
            return msgspec.json.decode(path.read_bytes(), type=list[Granted]) if path.exists() else []
        except (OSError, msgspec.DecodeError) as error:
            raise AccessError(f"{path} cannot be read: {error}") from None

    def revoke(self, chosen: Iterable[Granted]) -> dict[str, str]:
        """Take back what was granted; the JWTs, by account, that the server must be told. A server that starts with
        `server.conf` or `server_settings` knows."""
        keys = {one.public for one in chosen}
        now_s = _now_s()
        with self._alone():
            self._remember(
                [
                    msgspec.structs.replace(one, revoked_s=one.revoked_s or max(now_s, one.at_s))
                    if one.public in keys
                    else one
                    for one in self.granted()
                ]
            )
            changed = {_of(one) for one in self.granted() if one.public in keys}
            for name in changed:
                self._write_account(name)
            self._write_server_conf()
            return {name: self._read(f"{name}.jwt") for name in sorted(changed)}

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """No other process changes what is remembered meanwhile: of one that is forgotten nobody could take anything
        back."""
        with open(os.open(self.directory / "lock", os.O_WRONLY | os.O_CREAT, 0o600), "w") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            yield

    def _remember(self, granted: list[Granted]) -> None:
        write_private(self.directory / "granted.json", msgspec.json.format(msgspec.json.encode(granted)).decode())

    def _read(self, name: str) -> str:
        try:
            return (self.directory / name).read_text().strip()
        except OSError as error:
            raise AccessError(f"the operator's directory {self.directory} is not whole: {error}") from None

    def _write(self, name: str, text: str) -> None:
        write_private(self.directory / name, text + "\n")


async def tell(url: str, access: Access, accounts: Mapping[str, str], ca: str = "") -> None:
    """Give the server at `url` new JWTs of accounts; `ca`: see `connect`. Raises LogUnavailable, NotPermitted,
    AccessError."""
    connection = await connect(url, "access", credentials=access.system(), ca=ca)
    try:
        for name, jwt in accounts.items():
            answer = msgspec.json.decode((await connection.request(UPDATE, jwt.encode())).data)
            if "error" in answer:
                raise AccessError(f"{url} does not take the new account {name}: {answer['error'].get('description')}")
    finally:
        await connection.close()


def find_access(url: str, cwd: Path | str = ".") -> Access | None:
    """The material of the server at `url`: in $BLACKBOARD_ACCESS, else beside the embedded server of `cwd` or of the
    nearest parent, where it is that one. Raises AccessError where it is there and cannot be read."""
    if named := os.environ.get(ENVIRONMENT):
        return Access.load(named)
    here = Path(cwd).absolute()
    for directory in [here / ".blackboard", *(parent / ".blackboard" for parent in here.parents)]:
        if (state := read_state(directory)) is not None:
            return Access.load(directory / FOLDER) if state.url == url and is_there(directory / FOLDER) else None
    return None


def of_server(directory: Path) -> Access:
    """The material of the embedded server in `directory`, made where there is none. Raises AccessError."""
    directory = directory.absolute()
    if is_there(directory / FOLDER):
        return Access.load(directory / FOLDER)
    if any((directory / "data" / "jetstream" / "$G" / "streams").glob("BOARD_*")):
        raise AccessError(
            f"the board in {directory} is from before servers asked who is there, and would not be found: move the "
            "directory away to begin anew"
        )
    return Access.init(directory / FOLDER)


def is_there(directory: Path) -> bool:
    """Whether `directory` holds an operator's keys; not those of another user, who keeps them to himself."""
    return os.path.exists(directory / _FILES["operator"])  # Path.exists raises where it may not look


def _of(granted: Granted) -> str:
    return account_of(granted.roles)


def _only(subjects: list[str]) -> dict[str, list[str]]:
    """These subjects and no others; a list of none would allow all."""
    return {"allow": subjects} if subjects else {"deny": [">"]}


def _export(one: Export) -> dict[str, Any]:
    found = {"name": one.subject, "subject": one.subject, "type": one.kind}
    if one.kind == "service":
        found["response_type"] = "Stream" if one.answers == "many" else "Singleton"
    return found


def _now_s() -> int:
    return int(time.time())
