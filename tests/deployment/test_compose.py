"""docker-compose.yml without containers: it fits the Compose Specification, and its commands, with its environment, as
processes on loopback, bring a run to its end."""

import asyncio
import json
import re
import shlex
import socket
import subprocess
import urllib.request
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from compose_spec import PyCompose
from ruamel.yaml import YAML

from blackboard.server import die_with_parent, find_binary
from blackboard.server_files import MAX_PAYLOAD_BYTES
from tests.end_to_end.environments import make_environment
from tests.end_to_end.support import COMMAND, ROOT, environment_with, until

FILE = ROOT / "docker-compose.yml"
EXEC = re.compile(r"^# +docker compose exec licences (blackboard publish .*)$", re.MULTILINE)
VARIABLE = re.compile(r"\$\{\w+:-([^}]*)\}")


@pytest.fixture
def compose() -> dict[str, Any]:
    read: dict[str, Any] = YAML(typ="safe").load(FILE.read_text())
    return read


def validate(text: str) -> None:
    """Raises ValueError where the file breaks the Compose Specification, or names what it does not define."""
    PyCompose.from_json(json.dumps(YAML(typ="safe").load(VARIABLE.sub(r"\1", text)))).validate()


def test_it_fits_the_specification() -> None:
    text = FILE.read_text()
    validate(text)
    for right, wrong in {
        "restart: unless-stopped": "restart: [always]",
        "condition: service_healthy": "when: up",
        "- source: nats": "- source: nowhere",
    }.items():
        assert right in text
        with pytest.raises(ValueError, match=r"."):
            validate(text.replace(right, wrong))


def test_the_server_keeps_what_it_acknowledges(compose: dict[str, Any]) -> None:
    content = compose["configs"]["nats"]["content"]
    assert "sync_interval: always" in content
    assert f"max_payload: {MAX_PAYLOAD_BYTES}\n" in content
    volume, _, folder = compose["services"]["nats"]["volumes"][0].partition(":")
    assert volume in compose["volumes"]
    assert f'store_dir: "{folder}"' in content
    major, minor = re.fullmatch(r"nats:(\d+)\.(\d+)-alpine", compose["services"]["nats"]["image"]).groups()  # type: ignore[union-attr]
    assert (int(major), int(minor)) >= (2, 15)


def test_services_restart_are_watched_and_have_no_rights(compose: dict[str, Any]) -> None:
    for name, service in compose["services"].items():
        assert service["restart"] == "unless-stopped", name
        assert service["healthcheck"]["test"][0] == "CMD", name
        assert service["cap_drop"] == ["ALL"], name
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ())), name
    audited = compose["services"]["licences"]["volumes"][0]
    assert audited["target"] == "/audited"
    assert audited["read_only"] is True


def test_the_image_holds_the_packages_under_their_constraints_and_is_not_root(compose: dict[str, Any]) -> None:
    lines = compose["services"]["licences"]["build"]["dockerfile_inline"].splitlines()
    words = [shlex.split(line) for line in lines]
    copied = {name for verb, *names in words if verb == "COPY" for name in names[:-1]}
    packages = {"schemas", "blackboard", "projections", "supervisor", "specialists"}
    assert copied == {"pyproject.toml", "constraints.txt", "LICENSE", *packages}
    assert all((ROOT / name).exists() for name in copied)
    assert [rest for verb, *rest in words if verb == "USER"][-1:] == [["blackboard"]]
    assert any("--constraint /src/constraints.txt /src" in line for line in lines)
    assert words[-1][0] == "ENTRYPOINT"


# --- as processes -----------------------------------------------------------------------------------------------------


class Stack:
    """The services as processes: names of hosts are 127.0.0.1, ports are free ones, mounts are folders of the test."""

    def __init__(self, compose: Mapping[str, Any], folder: Path) -> None:
        self._services, self._configs = compose["services"], compose["configs"]
        self._folder = folder
        port, monitoring = free_ports(2)
        self._here = {
            "nats://nats:4222": f"nats://127.0.0.1:{port}",
            'host: "0.0.0.0"': 'host: "127.0.0.1"',
            "port: 4222": f"port: {port}",
            "127.0.0.1:8222": f"127.0.0.1:{monitoring}",
            "/data": str(folder / "data"),
            "/audited": str(make_environment(folder / "audited", 12)),
            "/reports": str(folder / "reports"),
        }
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def here(self, text: str) -> str:
        for there, here in self._here.items():
            text = re.sub(rf"{re.escape(there)}(?![\w])", here, text)
        return text

    def environment(self, name: str) -> dict[str, str]:
        told = self._services[name].get("environment", {})
        return environment_with(**{key: self.here(value) for key, value in told.items()})

    def words(self, name: str, command: list[str]) -> list[str]:
        """What runs here for a command in the container of that service."""
        if command[0] == "nats-server":
            config = self._services[name]["configs"][0]
            path = self._folder / "server.conf"
            path.write_text(self.here(self._configs[config["source"]]["content"]))
            return [find_binary(), *(str(path) if word == config["target"] else word for word in command[1:])]
        if command[0] == "blackboard":
            return [*COMMAND, *map(self.here, command[1:])]
        return command

    def start(self, name: str) -> None:
        service = self._services[name]
        dockerfile = service.get("build", {}).get("dockerfile_inline", "")
        entry = re.findall(r'^ENTRYPOINT \["(.*)"\]$', dockerfile, re.MULTILINE)
        with (self._folder / f"{name}.out").open("ab") as output:
            self._processes[name] = subprocess.Popen(
                self.words(name, [*entry, *service["command"]]),
                cwd=self._folder,
                env=self.environment(name),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                preexec_fn=die_with_parent(),  # noqa: PLW1509 - it makes one system call
            )

    async def is_healthy(self, name: str) -> bool:
        assert self._processes[name].poll() is None, self.said(name)
        kind, *check = self._services[name]["healthcheck"]["test"]
        assert kind == "CMD"
        if check[0] == "wget":
            return await asyncio.to_thread(answers, self.here(check[-1]))
        return (await self.call(name, check))[0] == 0

    async def call(self, name: str, command: list[str]) -> tuple[int, str]:
        """As `docker compose exec` does."""
        process = await asyncio.create_subprocess_exec(
            *self.words(name, command),
            cwd=self._folder,
            env=self.environment(name),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        said, _ = await process.communicate()
        assert process.returncode is not None
        return process.returncode, said.decode()

    async def up(self) -> None:
        """Each service once those it depends on are healthy."""
        left = dict(self._services)
        while left:
            name = next(one for one, service in left.items() if not left.keys() & service.get("depends_on", {}).keys())
            assert all(told["condition"] == "service_healthy" for told in left[name].get("depends_on", {}).values())
            self.start(name)
            await until(partial(self.is_healthy, name), f"{name} to be healthy", 60, partial(self.said, name))
            del left[name]

    def said(self, name: str) -> str:
        return (self._folder / f"{name}.out").read_text()

    def kill(self) -> None:
        for process in reversed(self._processes.values()):
            process.kill()
            process.wait()


def free_ports(count: int) -> list[int]:
    taken = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in taken]
    for one in taken:
        one.close()
    return ports


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


@pytest.fixture
def stack(compose: dict[str, Any], tmp_path: Path) -> Iterator[Stack]:
    made = Stack(compose, tmp_path)
    yield made
    made.kill()


@pytest.mark.timeout(180)
async def test_its_commands_bring_runs_to_their_end(stack: Stack, tmp_path: Path) -> None:
    commands = [shlex.split(line) for line in EXEC.findall(FILE.read_text())]
    assert len(commands) == 2
    await stack.up()
    for command in commands:
        code, said = await stack.call("licences", command)
        assert code == 0, said
        assert " is DONE (" in said
    assert {path.name for path in (tmp_path / "reports" / "audit").iterdir()} == {"licences.md", "sbom.cdx.json"}
    stack.kill()
    await stack.up()  # all of it again, on the same volume
    code, said = await stack.call("licences", ["blackboard", "rebuild", "--all", "--check"])
    assert code == 0, said
    assert said.count("licences-") == len(commands)
