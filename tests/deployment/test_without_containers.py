"""docs/deploying.md without containers, done as it says, on one machine: names of servers are 127.0.0.1, which their
certificates carry, with free ports."""

import os
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from blackboard.server import die_with_parent
from tests.cluster.servers import free_ports
from tests.end_to_end.environments import make_environment
from tests.end_to_end.support import ROOT, environment_with, until

SERVERS = ("nats-1", "nats-2", "nats-3")
GOES_ON = ("blackboard supervise", "blackboard attach", "blackboard notarize")


class Machines:
    """All three machines, and the one of the operator, in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        ports = free_ports(3 * len(SERVERS))
        self.ports = {name: ports[3 * n : 3 * n + 3] for n, name in enumerate(SERVERS)}
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self.environment = environment_with(PATH=path)
        self._processes: list[subprocess.Popen[bytes]] = []

    def here(self, text: str) -> str:
        client, route, _ = range(3)
        text = re.sub(r"(nats-\d):4222", lambda found: f"127.0.0.1:{self.ports[found[1]][client]}", text)
        return re.sub(r"(nats-\d):6222", lambda found: f"127.0.0.1:{self.ports[found[1]][route]}", text)

    def do(self, command: str) -> tuple[int, str]:
        ended = subprocess.run(
            ["bash", "-ec", self.here(command)],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=90,
        )
        return ended.returncode, ended.stdout.decode()

    def start(self, command: str, folder: Path) -> None:
        with (self.folder / "said").open("ab") as said:
            self._processes.append(
                subprocess.Popen(
                    ["bash", "-c", self.here(command)],
                    cwd=folder,
                    env=self.environment,
                    stdin=subprocess.DEVNULL,
                    stdout=said,
                    stderr=said,
                    preexec_fn=die_with_parent(),  # noqa: PLW1509 - it makes one system call
                )
            )

    def start_server(self, name: str, command: str) -> None:
        """As on a machine of its own, but for its address and ports."""
        folder = self.folder / ".deployment" / name
        config = self.here((folder / "board.conf").read_text()).replace('"0.0.0.0"', '"127.0.0.1"')
        for usual, port in zip(("4222", "6222", "8222"), self.ports[name], strict=True):
            config = re.sub(rf"\b{usual}\b", str(port), config)
        (folder / "board.conf").write_text(config)
        self.start(command.replace(SERVERS[0], name).replace("nats-server", "exec nats-server"), folder)

    def is_healthy(self, name: str) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.ports[name][2]}/healthz", timeout=2) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def said(self) -> str:
        return (self.folder / "said").read_text()[-4000:]

    def stop(self) -> None:
        for process in reversed(self._processes):
            process.terminate()
        for process in reversed(self._processes):
            process.wait(20)


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[Machines]:
    (tmp_path / ".docker").symlink_to(ROOT / ".docker")
    make_environment(tmp_path / ".venv", 12)
    made = Machines(tmp_path)
    yield made
    made.stop()


def blocks(heading: str) -> list[str]:
    """The command blocks of that section."""
    text = (ROOT / "docs" / "deploying.md").read_text()
    section = text.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return [token.content for token in MarkdownIt().parse(section) if token.type == "fence"]


@pytest.mark.timeout(240)
async def test_its_commands_bring_a_run_to_its_end(machines: Machines) -> None:
    (made_above,) = blocks("With Docker Compose")
    make, server, then = blocks("Without containers")
    for line in made_above.splitlines():
        if re.match("blackboard (access|notarize)", line):
            assert machines.do(line)[0] == 0
    code, said = machines.do(make)
    assert code == 0, said
    for name in SERVERS:
        machines.start_server(name, server)
    for name in SERVERS:
        await until(partial(machines.is_healthy, name), f"{name} to be healthy", 60, machines.said)

    environment, *lines = then.splitlines()
    for line in lines:
        if line.startswith(GOES_ON):
            for _ in range(2 if "on two machines" in line else 1):
                machines.start(f"{environment}\nexec {line}", machines.folder)
        elif line.startswith("blackboard status"):  # those that were started just now are not there yet
            await until(lambda line=line: machines.do(f"{environment}\n{line}")[0] == 0, line, 60, machines.said)
        else:
            code, said = machines.do(f"{environment}\n{line}")
            assert code == 0, said + machines.said()
    assert " is DONE (" in said
