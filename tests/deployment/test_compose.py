"""docker-compose.yml and its Dockerfile without containers: they fit the Compose Specification, and their commands, as
processes on loopback with their environment, secrets and certificates, bring runs to their end, whichever server dies.
"""

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from compose_spec import PyCompose
from ruamel.yaml import YAML

from blackboard.server_files import MAX_PAYLOAD_BYTES
from tests.deployment.stack import DOCKERFILE, NOT_OURS, Stack, entry_point, instructions
from tests.end_to_end.support import COMMAND, ROOT, environment_with

FILE = ROOT / "docker-compose.yml"
BEFORE = re.compile(r"^#   (blackboard .*)$", re.MULTILINE)
RUN = re.compile(r"^#   docker compose run --rm console (publish .*)$", re.MULTILINE)
DEFAULT, REQUIRED = re.compile(r"\$\{\w+:-([^}]*)\}"), re.compile(r"\$\{\w+:\?[^}]*\}")


@pytest.fixture
def compose() -> dict[str, Any]:
    read: dict[str, Any] = YAML(typ="safe").load(FILE.read_text())
    return read


def validate(text: str) -> None:
    """Raises ValueError where the file breaks the Compose Specification, or names what it does not define."""
    text = REQUIRED.sub("1000:1000", DEFAULT.sub(r"\1", text))
    PyCompose.from_json(json.dumps(YAML(typ="safe").load(text))).validate()


def test_it_fits_the_specification() -> None:
    text = FILE.read_text()
    validate(text)
    for right, wrong in {
        "restart: unless-stopped": "restart: [always]",
        "condition: service_healthy": "when: up",
        "- source: nats\n": "- source: nowhere\n",
        "secrets: [ca.crt, admin.creds]": "secrets: [ca.crt, another.creds]",
    }.items():
        assert right in text
        with pytest.raises(ValueError, match=r"."):
            validate(text.replace(right, wrong))


def test_the_servers_keep_what_they_acknowledge_and_speak_tls_alone(compose: dict[str, Any]) -> None:
    content = (ROOT / compose["configs"]["nats"]["file"]).read_text()
    assert "sync_interval: always" in content
    assert f"max_payload: {MAX_PAYLOAD_BYTES}\n" in content
    assert re.search(r"^tls \{ cert_file", content, re.MULTILINE)
    assert re.search(r"^  tls \{(?=[^}]*verify: true)[^}]*ca_file", content, re.MULTILINE)
    servers = {name: service for name, service in compose["services"].items() if name.startswith("nats-")}
    assert len(servers) == 3
    volumes = {service["volumes"][0].partition(":")[0] for service in servers.values()}
    assert volumes <= compose["volumes"].keys()
    assert len(volumes) == 3
    assert all(service["environment"]["NATS_NAME"] == name for name, service in servers.items())
    assert compose["services"]["create"]["command"] == ["create", "--replicas", "3"]


def test_services_have_no_rights_and_are_watched(compose: dict[str, Any]) -> None:
    for name, service in compose["services"].items():
        once = service["restart"] == "no"
        assert once or service["restart"] == "unless-stopped", name
        assert once or name in NOT_OURS or service["healthcheck"]["test"][0] == "CMD", name
        assert service["cap_drop"] == ["ALL"], name
        assert service["read_only"] is True, name
        assert "no-new-privileges:true" in service["security_opt"], name
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ())), name
        if name in NOT_OURS:
            assert re.fullmatch(r"[\w/-]+:\d+\.\d+\.\d+", service["image"]), name
        else:
            assert REQUIRED.fullmatch(service["user"]), name
    audited = compose["services"]["licences"]["volumes"][0]
    assert (audited["target"], audited["read_only"]) == ("/audited", True)


def test_what_is_put_into_a_read_only_container_is_a_file(compose: dict[str, Any]) -> None:
    """Compose copies anything else into the container, which it refuses where that is read-only."""
    for kind in ("configs", "secrets"):
        assert all(told.keys() == {"file"} for told in compose[kind].values()), kind
    for config in compose["configs"].values():
        assert (ROOT / config["file"]).is_file()
    (collector,) = compose["services"]["collector"]["configs"]
    told = YAML(typ="safe").load((ROOT / compose["configs"][collector["source"]]["file"]).read_text())
    for pipeline in told["service"]["pipelines"].values():
        assert all(set(pipeline[part]) <= told[part].keys() for part in ("receivers", "processors", "exporters"))


def test_the_image_is_built_once_and_never_fetched(compose: dict[str, Any]) -> None:
    """Two services that build one image at the same time fail: image already exists."""
    ours = {name: service for name, service in compose["services"].items() if name not in NOT_OURS}
    assert {service["image"] for service in ours.values()} == {"blackboard"}
    assert [name for name, service in ours.items() if "build" in service] == ["nats-1"]
    assert all(service["pull_policy"] == "never" for service in ours.values())


def test_what_runs_once_is_awaited_by_what_stays(compose: dict[str, Any]) -> None:
    """Else `docker compose up --wait` takes its end for a failure."""
    services = compose["services"]
    stays = [service for service in services.values() if service["restart"] != "no"]
    for name, service in services.items():
        if service["restart"] == "no" and "profiles" not in service:
            needed = [one["depends_on"][name] for one in stays if name in one.get("depends_on", {})]
            assert {"condition": "service_completed_successfully"} in needed, name


def test_each_role_has_its_own_credentials_and_nobody_the_operators_keys(compose: dict[str, Any]) -> None:
    secrets = {name: one["file"] for name, one in compose["secrets"].items()}
    assert not [file for file in secrets.values() if file.endswith((".seed", "ca.key"))]
    for name, service in compose["services"].items():
        mounted = set(service.get("secrets", ()))
        told = service.get("environment", {}).get("BLACKBOARD_CREDS", "")
        credentials = {one for one in mounted if one.endswith(".creds")}
        assert mounted <= secrets.keys(), name
        assert ("server.key" in mounted) == name.startswith("nats-"), name
        assert ("notary.key" in mounted) == (name == "notary"), name
        if credentials:
            assert told.rpartition("/")[2] in credentials, name
            assert len(credentials - {"auditor.creds"}) == 1, name


def test_the_image_is_not_root_and_holds_the_packages_under_their_constraints() -> None:
    words = [(verb, shlex.split(rest)) for verb, rest in instructions()]
    copied = {name for verb, names in words if verb == "COPY" for name in names[:-1]}
    packages = {"schemas", "blackboard", "projections", "supervisor", "specialists"}
    assert copied == {"pyproject.toml", "constraints.txt", "LICENSE", *packages}
    assert all((ROOT / name).exists() for name in copied)
    assert [rest for verb, rest in words if verb == "USER"] == [["blackboard"]]
    assert "--constraint /src/constraints.txt /src" in DOCKERFILE.read_text()
    assert "HEALTHCHECK" in dict(words)
    assert entry_point() == ["blackboard"]


def test_what_the_image_copies_can_be_installed_and_works_alone(tmp_path: Path) -> None:
    """Without the dependencies, which lie in this environment."""
    source, installed = tmp_path / "src", tmp_path / "installed"
    source.mkdir()
    for name in {name for verb, rest in instructions() if verb == "COPY" for name in rest.split()[:-1]}:
        (source / name).symlink_to(ROOT / name)
    words = ["-m", "pip", "--quiet", "install", "--no-deps", "--no-index", "--no-build-isolation", "--target"]
    subprocess.run([sys.executable, *words, str(installed), str(source)], check=True)
    code = "import blackboard, sys; from blackboard.cli import main; print(blackboard.__file__); main()"
    environment = environment_with(PYTHONPATH=str(installed))
    said = subprocess.run(
        [sys.executable, "-c", code, "schema", "goal"], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert said.returncode == 0, said.stderr
    assert said.stdout.startswith(f"{installed}{os.sep}")


# --- as processes -----------------------------------------------------------------------------------------------------


@pytest.fixture
def stack(compose: dict[str, Any], tmp_path: Path) -> Iterator[Stack]:
    made = Stack(compose, tmp_path)
    for line in BEFORE.findall(FILE.read_text()):
        _, *words = shlex.split(line)
        subprocess.run([*COMMAND, *words], cwd=tmp_path, env=environment_with(), check=True, stdout=subprocess.DEVNULL)
    yield made
    made.kill()


@pytest.mark.timeout(240)
async def test_its_commands_bring_runs_to_their_end(stack: Stack, tmp_path: Path) -> None:
    commands = RUN.findall(FILE.read_text())
    assert len(commands) == 2
    await stack.up()
    code, said = await stack.run("console", commands[0])
    assert (code, " is DONE (" in said) == (0, True), said
    stack.kill("nats-1")  # any one may die
    code, said = await stack.run("console", commands[1])
    assert (code, " is DONE (" in said) == (0, True), said
    assert {path.name for path in (tmp_path / "reports" / "audit").iterdir()} == {"licences.md", "sbom.cdx.json"}
    await stack.healthy_again("nats-1")
    stack.kill()
    await stack.up()  # all of it again, on the same volumes
    code, said = await stack.run("console", "rebuild --all --check")
    assert code == 0, said
    assert said.count("licences-") == len(commands)
    assert (tmp_path / "witness" / "heads").stat().st_size
