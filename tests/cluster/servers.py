"""Three nats-servers on loopback as one cluster: TLS to clients and between them, every write synced before its ack.

Each can be killed and started again; its data and its ports stay.
"""

import json
import os
import signal
import socket
import subprocess
import time
import urllib.request
from pathlib import Path
from typing import Any, Self

from blackboard.certificates import open_authority
from blackboard.server import find_binary
from blackboard.server_files import MAX_PAYLOAD_BYTES, last_line
from blackboard.server_process import POLL_S, die_with_parent

SERVERS = 3
READY_S = 30.0

CONFIG = """
server_name: {name}
host: "127.0.0.1"
port: {port}
http: "127.0.0.1:{monitoring}"
max_payload: {max_payload}
tls {{ cert_file: {certificate}, key_file: {key} }}
jetstream {{ store_dir: {store}, sync_interval: always }}
cluster {{
  name: cluster
  host: "127.0.0.1"
  port: {route}
  no_advertise: true
  tls {{ cert_file: {certificate}, key_file: {key}, ca_file: {ca}, verify: true }}
  routes: {routes}
}}
"""


class ClusterServer:
    """One of them. `port`, `monitoring` and `route` are its ports."""

    def __init__(self, folder: Path, name: str, ports: tuple[int, int, int]) -> None:
        self.folder, self.name = folder, name
        self.port, self.monitoring, self.route = ports
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    @property
    def log(self) -> Path:
        return self.folder / f"{self.name}.log"

    def start(self) -> None:
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(
                [find_binary(), "-c", str(self.folder / f"{self.name}.conf")],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                preexec_fn=die_with_parent(),  # noqa: PLW1509 - it makes one system call
            )

    def kill(self) -> None:
        """As when its machine loses its power."""
        self.send(signal.SIGKILL)
        assert self.process
        self.process.wait()

    def stop(self) -> None:
        self.send(signal.SIGTERM)
        assert self.process
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.kill()

    def send(self, number: signal.Signals) -> None:
        assert self.process
        os.kill(self.process.pid, number)

    @property
    def runs(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def ask(self, path: str) -> Any:
        """What the monitoring port says; None when it does not."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.monitoring}/{path}", timeout=2) as answer:
                return json.loads(answer.read())
        except OSError:
            return None

    @property
    def is_healthy(self) -> bool:
        """All that it holds is there and current."""
        return (self.ask("healthz") or {}).get("status") == "ok"


class Cluster:
    """All three; `settings` are more lines for the configuration of each. A context manager, as `EmbeddedServer` is:
    start it on the main thread."""

    def __init__(self, folder: Path, settings: str = "") -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        authority = open_authority(folder / "certificates")
        self.ca = str(authority.path)
        certificate, key = authority.issue("127.0.0.1")
        ports = free_ports(3 * SERVERS)
        self.servers = [
            ClusterServer(folder, f"nats-{n + 1}", (ports[3 * n], ports[3 * n + 1], ports[3 * n + 2]))
            for n in range(SERVERS)
        ]
        for server in self.servers:
            others = [f"nats-route://127.0.0.1:{other.route}" for other in self.servers if other is not server]
            text = CONFIG.format(
                name=server.name,
                port=server.port,
                monitoring=server.monitoring,
                route=server.route,
                max_payload=MAX_PAYLOAD_BYTES,
                certificate=json.dumps(str(certificate)),
                key=json.dumps(str(key)),
                ca=json.dumps(self.ca),
                store=json.dumps(str(folder / server.name)),
                routes=json.dumps(others),
            )
            (folder / f"{server.name}.conf").write_text(text + settings + "\n")

    @property
    def url(self) -> str:
        return ",".join(server.url for server in self.servers)

    def start(self) -> None:
        for server in self.servers:
            if not server.runs:
                server.start()
        self.wait_healthy()

    def wait_healthy(self) -> None:
        """Until each has all that the others have."""
        deadline = time.monotonic() + READY_S
        for server in self.servers:
            while not server.is_healthy:
                assert server.runs, f"{server.name} ended: {last_line(server.log)}"
                assert time.monotonic() < deadline, f"{server.name} is not healthy: {server.ask('healthz')}"
                time.sleep(POLL_S)

    def stop(self) -> None:
        for server in self.servers:
            if server.runs:
                server.stop()

    def leader_of(self, stream: str) -> ClusterServer | None:
        """The server that leads the stream, as those that run say; None while there is none."""
        for server in self.servers:
            if not server.runs:
                continue
            said = server.ask("jsz?streams=true&accounts=true") or {}
            for account in said.get("account_details", ()):
                for found in account.get("stream_detail", ()):
                    leader = (found.get("cluster") or {}).get("leader", "")
                    if found["name"] == stream and leader == server.name:
                        return server
        return None

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def free_ports(count: int) -> list[int]:
    taken = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in taken]
    for one in taken:
        one.close()
    return ports
