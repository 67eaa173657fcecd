"""The services of docker-compose.yml as processes on loopback: each has a folder in the place of its container's root,
names of hosts are 127.0.0.1, ports are free ones, secrets are copied to where they are mounted."""

import asyncio
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from blackboard.server import die_with_parent, find_binary
from tests.cluster.servers import free_ports
from tests.end_to_end.environments import make_environment
from tests.end_to_end.support import COMMAND, ROOT, environment_with, until

DOCKERFILE = ROOT / ".docker" / "Dockerfile"
PORTS = {"4222": 0, "6222": 1, "8222": 2}
NOT_OURS = ("collector", "jaeger")
"""Images of others, which no package brings."""
MOUNTED = "/run/secrets"
_PATH = re.compile(r"(?<![\w./-])/(run/secrets|data|etc/nats|reports|audited|witness)(?=[/\"'\s,]|$)")


class Stack:
    """`folder` is where everything lies; `.deployment` in it is what a person makes before `up`."""

    def __init__(self, compose: Mapping[str, Any], folder: Path) -> None:
        self.folder, self.services = folder, compose["services"]
        self._configs, self._secrets, self._profiled = compose["configs"], compose["secrets"], set[str]()
        self._profiled = {name for name, service in self.services.items() if service.get("profiles")}
        servers = [name for name in self.services if name.startswith("nats-")]
        ports = free_ports(len(PORTS) * len(servers))
        self._ports = {name: ports[len(PORTS) * n :][: len(PORTS)] for n, name in enumerate(servers)}
        self._shared = {
            "audited": make_environment(folder / "audited", 12),
            "reports": folder / "reports",
            "witness": folder / "witness",
        }
        for place in self._shared.values():
            place.mkdir(exist_ok=True)
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._checked: dict[str, str] = {}

    # What stands in the file, for here

    def root(self, name: str) -> Path:
        return self.folder / "roots" / name

    def here(self, name: str, text: str) -> str:
        """A text of the container of service `name` as it must be on this machine."""
        text = re.sub(r"(nats-\d+):(\d+)", lambda m: f"127.0.0.1:{self._ports[m[1]][PORTS[m[2]]]}", text)
        text = _PATH.sub(lambda found: str(self._shared.get(found[1], self.root(name) / found[1])), text)
        if name in self._ports:
            text = re.sub(r"(?<=port: )\d+", lambda port: str(self._ports[name][PORTS[port[0]]]), text)
            text = re.sub(r"(?<=127\.0\.0\.1:)8222", str(self._ports[name][PORTS["8222"]]), text)
            text = text.replace('host: "0.0.0.0"', 'host: "127.0.0.1"')
        return text

    def environment(self, name: str) -> dict[str, str]:
        told = self.services[name].get("environment", {})
        return environment_with(
            **{key: self.here(name, value) for key, value in told.items() if not key.startswith("OTEL_")}
        )

    def words(self, name: str, command: Sequence[str]) -> list[str]:
        """What runs here for a command in the container of that service."""
        program, *rest = command
        here = {"blackboard": COMMAND, "nats-server": [find_binary()], "python": [sys.executable]}[program]
        return [*here, *(self.here(name, word) for word in rest)]

    def mount(self, name: str) -> None:
        root, service = self.root(name), self.services[name]
        for folder in ("data", "etc/nats", MOUNTED[1:]):
            (root / folder).mkdir(parents=True, exist_ok=True)
        for secret in service.get("secrets", ()):
            shutil.copy(self.folder / self._secrets[secret]["file"], root / MOUNTED[1:] / secret)
        for config in service.get("configs", ()):
            text = self.here(name, (ROOT / self._configs[config["source"]]["file"]).read_text())
            (root / config["target"][1:]).write_text(text)

    # As docker compose does

    def start(self, name: str) -> subprocess.Popen[bytes]:
        service = self.services[name]
        self.mount(name)
        command = [*service.get("entrypoint", entry_point()), *service["command"]]
        with (self.folder / f"{name}.out").open("ab") as output:
            self._processes[name] = subprocess.Popen(
                self.words(name, command),
                cwd=self.root(name) / service.get("working_dir", "/")[1:],
                env=self.environment(name),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                preexec_fn=die_with_parent(),  # noqa: PLW1509 - it makes one system call
            )
        return self._processes[name]

    async def call(self, name: str, command: Sequence[str]) -> tuple[int, str]:
        """As `docker compose exec` does."""
        process = await asyncio.create_subprocess_exec(
            *self.words(name, command),
            cwd=self.root(name),
            env=self.environment(name),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        said, _ = await process.communicate()
        assert process.returncode is not None
        return process.returncode, said.decode()

    async def run(self, name: str, command: str) -> tuple[int, str]:
        """As `docker compose run --rm` does."""
        self.mount(name)
        return await self.call(name, [*entry_point(), *shlex.split(command)])

    async def is_healthy(self, name: str) -> bool:
        assert self._processes[name].poll() is None, self.said(name)
        kind, *check = self.services[name]["healthcheck"]["test"]
        assert kind == "CMD"
        code, self._checked[name] = await self.call(name, check)
        return code == 0

    def is_done(self, name: str) -> bool:
        code = self._processes[name].poll()
        assert code in (None, 0), self.said(name)
        return code == 0

    async def up(self) -> None:
        """Each service as soon as what it depends on is as it should be; then until all are."""
        left = [name for name in self.services if name not in (*NOT_OURS, *self._profiled)]
        wanted = list(left)
        while left:
            for name in [name for name in left if not set(left) & self._needs(name).keys()]:
                for other, condition in self._needs(name).items():
                    await self._wait(other, condition)
                self.start(name)
                left.remove(name)
        for name in wanted:
            once = self.services[name]["restart"] == "no"
            await self._wait(name, "service_completed_successfully" if once else "service_healthy")

    def _needs(self, name: str) -> dict[str, str]:
        return {other: told["condition"] for other, told in self.services[name].get("depends_on", {}).items()}

    async def _wait(self, name: str, condition: str) -> None:
        if condition == "service_healthy":
            await until(partial(self.is_healthy, name), f"{name} to be healthy", 60, partial(self.said, name))
        else:
            assert condition == "service_completed_successfully"
            await until(partial(self._is_done, name), f"{name} to be done", 60, partial(self.said, name))

    async def _is_done(self, name: str) -> bool:
        return self.is_done(name)

    def said(self, name: str) -> str:
        return (self.folder / f"{name}.out").read_text() + self._checked.get(name, "")

    def kill(self, *names: str) -> None:
        for name in names or tuple(reversed(self._processes)):
            self._processes[name].kill()
            self._processes[name].wait()

    async def healthy_again(self, name: str, within_s: float = 60) -> float:
        """Start a service that was killed; the seconds until it is healthy."""
        began = time.monotonic()
        self.start(name)
        await until(partial(self.is_healthy, name), f"{name} to be healthy", within_s, partial(self.said, name))
        return time.monotonic() - began


def instructions() -> list[tuple[str, str]]:
    """The instructions of the Dockerfile: name and the rest."""
    text = re.sub(r"\\\n\s*", "", DOCKERFILE.read_text())
    lines = (line.partition(" ") for line in text.splitlines() if line and not line.startswith("#"))
    return [(verb, rest) for verb, _, rest in lines]


def entry_point() -> list[str]:
    (told,) = [rest for verb, rest in instructions() if verb == "ENTRYPOINT"]
    return re.findall(r'"([^"]*)"', told)
