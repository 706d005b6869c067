"""The files in `deploy`: they name options, paths and times that fit the server, and are valid for their tools."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
import urllib.error
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from holdfast.cli.serve import serve
from holdfast.server.run import END_S
from holdfast.server.settings import DEFAULT_PORT, GRACE_S
from tests.support import SOAK

DEPLOY = Path(__file__).parents[2] / "deploy"
OPTIONS = {name: option for option in serve.params for name in option.opts}
ENVIRONMENT = {"POSTGRES_PASSWORD": "secret", "HOLDFAST_HOST": "agents.example.com"}


def read_options(arguments: list[str]) -> dict[str, str]:
    """The options of `holdfast serve` in a command, each of them one that the command has."""
    found = {}
    for place, argument in enumerate(arguments):
        if argument.startswith("--"):
            assert argument in OPTIONS, argument
            found[argument] = "" if getattr(OPTIONS[argument], "is_flag", False) else arguments[place + 1]
    return found


def stop_seconds(options: dict[str, str]) -> int:
    """The longest that the server takes to stop."""
    return int(options.get("--drain", 0)) + int(options.get("--grace", GRACE_S)) + END_S


# Containerfile


def read_steps() -> list[tuple[str, str]]:
    text = (DEPLOY / "Containerfile").read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(line.split()[0], line.partition(" ")[2]) for line in lines]


def test_the_container_is_not_root_has_a_volume_and_a_check_of_its_health() -> None:
    steps = read_steps()
    last_stage = steps[max(place for place, (name, _) in enumerate(steps) if name == "FROM") :]
    found = dict(last_stage)
    assert {name for name, _ in steps} <= {*"FROM WORKDIR COPY RUN ENV USER VOLUME EXPOSE STOPSIGNAL".split()} | {
        *"HEALTHCHECK ENTRYPOINT CMD".split()
    }
    assert int(found["USER"]) > 0
    assert json.loads(found["VOLUME"]) == ["/data"]
    assert (found["EXPOSE"], found["STOPSIGNAL"]) == (str(DEFAULT_PORT), "SIGTERM")
    assert json.loads(found["ENTRYPOINT"]) == ["holdfast", "serve"]
    assert read_options(json.loads(found["CMD"]))["--host"] == "0.0.0.0"
    names = [name for name, _ in last_stage]
    assert names.index("USER") > names.index("RUN"), "what needs root comes before"


def test_the_container_copies_what_there_is_and_installs_extras_that_there_are() -> None:
    for name, rest in read_steps():
        if name == "COPY" and "--from" not in rest:
            for source in rest.split()[:-1]:
                assert (DEPLOY.parent / source).exists(), source
        if extras := re.search(r"\.\[([\w,]+)\]", rest):
            project = (DEPLOY.parent / "pyproject.toml").read_text()
            assert all(re.search(rf"^{extra} = \[", project, re.MULTILINE) for extra in extras[1].split(","))


def test_the_check_of_health_fails_without_a_server_and_with_one_that_is_not_ready() -> None:
    text = dict(read_steps())["HEALTHCHECK"]
    command = json.loads(text[text.index("[") :])
    assert command[0] == "python"
    ran = subprocess.run([sys.executable, *command[1:]], capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    assert urllib.error.URLError.__name__ in ran.stderr
    assert f"127.0.0.1:{DEFAULT_PORT}/readyz" in command[2]


def test_the_steps_of_the_build_work_in_a_plain_folder(tmp_path: Path) -> None:
    """The first stage, with a folder in place of the image: what it copies is enough to install and to run."""
    if not SOAK:
        pytest.skip("it installs packages: only in make soak")
    (tmp_path / "src").mkdir()
    for name, rest in read_steps():
        if name == "FROM" and "AS" not in rest:
            break
        if name == "COPY":
            *sources, target = rest.split()
            for source in sources:
                subprocess.run(["cp", "-r", DEPLOY.parent / source, tmp_path / "src" / target], check=True)
        if name == "RUN":
            script = rest.replace("/opt/holdfast", str(tmp_path / "opt"))
            subprocess.run(["sh", "-ec", script], cwd=tmp_path / "src", check=True)
    ran = subprocess.run(
        [tmp_path / "opt/bin/holdfast", "serve", "--help"],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin"},
    )
    assert "Serve a store over HTTP" in ran.stdout


# systemd


def read_unit() -> dict[str, list[tuple[str, str]]]:
    sections: dict[str, list[tuple[str, str]]] = {}
    for line in (DEPLOY / "holdfast.service").read_text().splitlines():
        if line.startswith("["):
            sections[line.strip("[]")] = current = []
        elif line and not line.startswith("#"):
            name, _, value = line.partition("=")
            current.append((name, value))
    return sections


def test_the_service_starts_the_command_and_waits_for_its_end() -> None:
    service = dict(read_unit()["Service"])
    program, command, *arguments = shlex.split(service["ExecStart"])
    assert (Path(program).name, command) == ("holdfast", "serve")
    assert int(service["TimeoutStopSec"]) > stop_seconds(read_options(arguments))
    assert (service["KillSignal"], service["KillMode"]) == ("SIGTERM", "mixed")
    assert service["Environment"].startswith("HOLDFAST_FILE=/var/lib/holdfast/")
    assert service["StateDirectory"] == "holdfast"
    for name in ("NoNewPrivileges", "ProtectHome", "PrivateTmp", "PrivateDevices", "DynamicUser"):
        assert service[name] == "yes"
    assert (service["ProtectSystem"], service["CapabilityBoundingSet"]) == ("strict", "")


def test_systemd_knows_every_line_of_the_service(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("there is no systemd here")
    unit = (DEPLOY / "holdfast.service").read_text().replace("/opt/holdfast/bin/holdfast", "/bin/true")
    (tmp_path / "holdfast.service").write_text(unit)
    ran = subprocess.run(
        ["systemd-analyze", "verify", tmp_path / "holdfast.service"], capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    wrong = tmp_path / "wrong.service"
    wrong.write_text(unit.replace("NoNewPrivileges=yes", "NoNewPrivilege=yes"))
    assert (
        "NoNewPrivilege"
        in subprocess.run(["systemd-analyze", "verify", wrong], capture_output=True, text=True, check=False).stderr
    )


# compose


def read_compose() -> dict[str, Any]:
    """The file, with the variables filled in as compose does it."""

    def fill(match: re.Match[str]) -> str:
        name, _, default = match[1].partition(":")
        return ENVIRONMENT.get(name, default.lstrip("-?"))

    text = re.sub(r"\$\{([^}]+)\}", fill, (DEPLOY / "compose.yaml").read_text())
    document: dict[str, Any] = yaml.safe_load(text)
    return document


SERVICE_KEYS = frozenset(
    "build image command environment depends_on read_only tmpfs cap_drop security_opt stop_grace_period restart "
    "volumes ports healthcheck".split()
)


def test_compose_runs_two_replicas_on_one_database_behind_a_proxy() -> None:
    document = read_compose()
    assert set(document) == {"name", "services", "volumes"}
    services = document["services"]
    for name, service in services.items():
        assert set(service) <= SERVICE_KEYS, name
        for needed in service.get("depends_on", ()):
            assert needed in services
        for volume in service.get("volumes", ()):
            source = volume.split(":")[0]
            assert (DEPLOY / source).exists() if source.startswith(".") else source in document["volumes"]
    replicas = [service for name, service in services.items() if name.startswith("replica")]
    assert len(replicas) == 2
    assert replicas[0] == replicas[1]
    replica = replicas[0]
    options = read_options(replica["command"])
    assert int(replica["stop_grace_period"].rstrip("s")) > stop_seconds(options)
    assert options["--allow-host"] == ENVIRONMENT["HOLDFAST_HOST"]
    assert replica["environment"]["HOLDFAST_FILE"] == "postgresql://holdfast:secret@database/holdfast"
    assert replica["depends_on"]["database"]["condition"] == "service_healthy"
    assert "ports" not in replica, "only the proxy is reached from outside"
    assert (DEPLOY / replica["build"]["context"] / replica["build"]["dockerfile"]).exists()


def test_compose_asks_for_a_password() -> None:
    assert "${POSTGRES_PASSWORD:?" in (DEPLOY / "compose.yaml").read_text()
    assert "secret" not in (DEPLOY / "compose.yaml").read_text()


def test_the_proxy_knows_the_replicas_and_asks_whether_they_are_ready() -> None:
    text = (DEPLOY / "Caddyfile").read_text()
    services = read_compose()["services"]
    backends = re.search(r"reverse_proxy (.*) \{", text)
    assert backends is not None
    assert backends[1].split() == [f"{name}:{DEFAULT_PORT}" for name in services if name.startswith("replica")]
    assert "health_uri /readyz" in text
    assert "flush_interval -1" in text
    assert text.count("{") == text.count("}")


def test_the_page_names_bounds_and_options_as_they_are() -> None:
    from holdfast.server import connections, settings, state

    page = (DEPLOY.parent / "docs" / "howto" / "deploy.md").read_text()
    for option in re.findall(r"`(--[a-z-]+)[` ]", page):
        assert option in OPTIONS or option == "--stop-timeout", option
    assert f"| {state.RUNNING}, and {state.WAITING} that wait for at most {state.WAIT_S} seconds |" in page
    assert f"| {state.STREAMS:,} |" in page
    assert f"`--max-body`, {settings.BODY_BYTES >> 20} MiB" in page
    assert f"{connections.HEADER_BYTES >> 10} KiB, within {connections.HEADER_S} seconds" in page
    assert f"`--request-timeout`, {settings.REQUEST_S} seconds" in page
    assert f"| {connections.STALL_S} seconds |" in page
