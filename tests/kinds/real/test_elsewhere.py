"""Claude Code on other hosts and in a sandbox behaves as on this machine."""

from __future__ import annotations

import json
import os
import threading
import time
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from mngr.testkit.modelserver import ModelServer
from tests.conftest import IS_FULL_SCALE, MngrProgram
from tests.kinds.real.kit import PLACE, Steps, fake
from tests.providers.docker.test_contract import settings
from tests.support.hosts.engines import Docker, Engine, Podman
from tests.support.hosts.sshd import Farm

KIND = "claude"
PROGRAM = (PLACE / "claude/node_modules/.bin/claude").resolve()
ASKS: Steps = [{"text": "may I", "sh": "echo hi > out.txt"}, {"text": "all done"}]


class Gate(ThreadingHTTPServer):
    """A proxy for a model that rejects requests without a token or with a token in `dead`."""

    daemon_threads = True

    def __init__(self, model: ModelServer) -> None:
        super().__init__(("127.0.0.1", 0), _Visit)
        self.model, self.dead, self.seen = model, {""}, list[str]()
        self.url = f"http://127.0.0.1:{self.server_port}/s/gate"
        threading.Thread(target=self.serve_forever, daemon=True).start()


class _Visit(BaseHTTPRequestHandler):
    server: Gate

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        token = (self.headers["Authorization"] or "").removeprefix("Bearer ")
        self.server.seen.append(token)
        if token in self.server.dead:
            error = {"type": "error", "error": {"type": "authentication_error", "message": "it has expired"}}
            self._send(401, "application/json", json.dumps(error).encode())
            return
        url = f"http://127.0.0.1:{self.server.model.port}{self.path}"
        request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request) as answer:
            self._send(answer.status, answer.headers["Content-Type"], answer.read())

    def _send(self, status: int, kind: str, data: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def gate(model: ModelServer) -> Iterator[Gate]:
    with Gate(model) as server:
        yield server
        server.shutdown()


@pytest.fixture
def fleet(coder: MngrProgram, gate: Gate) -> MngrProgram:
    """The mngr program of a user who is logged in."""
    coder.env.update(ANTHROPIC_BASE_URL=gate.url, MNGR__AGENTS__CLAUDE__ENV__CLAUDE_CODE_MAX_RETRIES="0")
    log_in(coder, "token-1")
    return coder


def log_in(fleet: MngrProgram, token: str) -> None:
    """Write the user's login file as Claude does."""
    path = Path(fleet.env["HOME"]) / ".claude/.credentials.json"
    path.parent.mkdir(exist_ok=True)
    until = int(time.time() + 3600) * 1000
    login = {
        "accessToken": token,
        "refreshToken": "renews-it",
        "expiresAt": until,
        "scopes": ["user:inference"],
    }
    path.write_text(json.dumps({"claudeAiOauth": login}))


def renew_login(fleet: MngrProgram, gate: Gate, token: str) -> None:
    """Renew the login as another program of the user would: every earlier token becomes invalid."""
    gate.dead.update(gate.seen)
    log_in(fleet, token)


def read_transcript(fleet: MngrProgram, name: str) -> list[dict[str, Any]]:
    transcript: list[dict[str, Any]] = fleet.run_json("transcript", name)["transcript"]
    return transcript


def list_user_messages(fleet: MngrProgram, name: str) -> list[str]:
    return [row["text"].rstrip() for row in read_transcript(fleet, name) if row["role"] == "user"]


def get_state(fleet: MngrProgram, name: str) -> tuple[str, str | None]:
    agent = fleet.get_agent(name)
    return agent["state"], agent["state_reason"]


def send_and_check(fleet: MngrProgram, name: str, text: str, expected_state: str = "WAITING (end_of_turn)") -> None:
    assert f"now {expected_state}\n" in fleet("message", name, "-m", text, "--wait", "--timeout", "60").out
    transcript = read_transcript(fleet, name)
    assert [row["text"].rstrip() for row in transcript if row["role"] == "user"][-1] == text
    assert transcript[-1]["role"] == "assistant" or "PARKED" in expected_state


def check_life_cycle(fleet: MngrProgram, gate: Gate, address: str, *options: str) -> None:
    """Run an agent from `create` to a second turn after a stop, and renew the user's login during the stop."""
    first = fake(ASKS, "first")
    fleet("create", address, "claude", "--no-connect", *options, "-m", first)
    name = address.partition("@")[0]
    fleet("wait", name, "--timeout", "60")
    if "--yolo" not in options:
        assert get_state(fleet, name) == ("WAITING", "permission")
        fleet("message", name, "--allow", "--wait", "--timeout", "60")
    assert get_state(fleet, name) == ("WAITING", "end_of_turn")
    assert fleet("exec", name, "--", "cat", "out.txt").out == "hi\n"
    before = read_transcript(fleet, name)
    assert [row["role"] for row in before] == ["user", "assistant", "tool", "assistant"]
    assert before[0]["text"] == first and before[-1]["text"] == "all done"
    fleet("stop", name)
    assert read_transcript(fleet, name) == before
    renew_login(fleet, gate, "token-2")
    fleet("start", name)
    send_and_check(fleet, name, "again")
    assert read_transcript(fleet, name)[:4] == before
    (usage,) = fleet.run_json("usage", name)["usage"]
    assert usage["input_tokens"] > 0 and usage["output_tokens"] > 0


def logins(directory: Path) -> list[dict[str, Any]]:
    """Return the logins of the agents below a directory."""
    return [json.loads(path.read_text())["claudeAiOauth"] for path in directory.rglob(".credentials.json")]


@pytest.mark.full
def test_it_works_over_ssh_and_after_migrations(fleet: MngrProgram, gate: Gate, farm: Farm) -> None:
    fleet.env["MNGR__PROVIDERS__SSH__CONFIG"] = str(farm.config)
    fleet.env["MNGR__AGENTS__CLAUDE__PROGRAM"] = "~/bin/claude"
    home = farm.home("h1")
    for home_dir in (home, Path(fleet.env["HOME"])):
        (home_dir / "bin").mkdir()
        (home_dir / "bin/claude").symlink_to(PROGRAM)
    check_life_cycle(fleet, gate, "foo@h1")
    (login,) = logins(home / ".mngr/agents")
    assert login["accessToken"] == "token-2" and "refreshToken" not in login
    failed = fleet("clone", "foo", "bar@h2", code=1)
    assert f"{farm.home('h2')}/bin/claude: command not found" in failed.err and "install it on h2" in failed.err
    # The conversation moves with the agent.
    fleet("clone", "foo", "bar@local", "--no-start")
    fleet("migrate", "bar", "@h1")
    fleet("start", "bar")
    send_and_check(fleet, "bar", "there")
    fleet("migrate", "bar", "@local")
    send_and_check(fleet, "bar", "home")
    assert list_user_messages(fleet, "foo")[1:] == ["again"]
    assert list_user_messages(fleet, "bar")[1:] == ["again", "there", "home"]
    assert fleet("exec", "bar", "--", "cat", "out.txt").out == "hi\n"
    link = fleet.get_agent_dir("bar") / "claude/.credentials.json"
    assert link.readlink() == Path(fleet.env["HOME"]) / ".claude/.credentials.json"
    assert "refreshToken" in logins(Path(fleet.env["HOME"]) / ".claude")[0]
    assert gate.seen[0] == "token-1" and gate.seen[-1] == "token-2"


def test_it_works_in_a_sandbox(fleet: MngrProgram, gate: Gate) -> None:
    check_life_cycle(fleet, gate, "foo", "--sandbox", "--yolo")
    renew_login(fleet, gate, "token-3")
    send_and_check(fleet, "foo", "too late", expected_state="PARKED (login)")
    send_and_check(fleet, "foo", "go on")
    (login,) = logins(fleet.home / "agents")
    assert login["accessToken"] == "token-3" and "refreshToken" not in login


if IS_FULL_SCALE:

    def test_it_works_in_a_docker_container(
        fleet: MngrProgram, gate: Gate, docker_engine: Docker, tmp_path: Path
    ) -> None:
        """The image contains the program."""
        (tmp_path / "image").mkdir()
        os.link(PROGRAM, tmp_path / "image/claude")
        (tmp_path / "image/Dockerfile").write_text(
            f"FROM {docker_engine.image}\nCOPY claude /opt/bin/claude\nENV PATH=/opt/bin:/usr/bin:/bin\n"
        )
        check_containers(fleet, gate, "docker", docker_engine, "-b", f"dockerfile={tmp_path}/image/Dockerfile")

    def test_it_works_in_a_podman_container(fleet: MngrProgram, gate: Gate, podman_engine: Podman) -> None:
        """The container mounts the program of this machine."""
        fleet.env["MNGR__PROVIDERS__PODMAN__KIND"] = "docker"
        fleet.env["MNGR__PROVIDERS__PODMAN__PROGRAM"] = "podman"
        fleet.env["MNGR__AGENTS__CLAUDE__PROGRAM"] = "/opt/claude"
        check_containers(fleet, gate, "podman", podman_engine, "-b", f"volumes+={PROGRAM}:/opt/claude:ro")


def check_containers(fleet: MngrProgram, gate: Gate, provider: str, engine: Engine, *options: str) -> None:
    """Run agents in containers that share this machine's network, because the model is there."""
    fleet.env.update({**settings(provider), **engine.env})
    check_life_cycle(fleet, gate, f"foo@box.{provider}", "-b", "network=host", *options)
    fleet("create", f"bar@box.{provider}", "claude", "--yolo", "--no-connect", "-m", fake(ASKS))
    fleet("wait", "bar", "--timeout", "60")
    assert get_state(fleet, "bar") == ("WAITING", "end_of_turn")
    assert fleet("exec", "bar", "--", "cat", "out.txt").out == "hi\n"
    fleet("stop", f"@box.{provider}")
    fleet("start", "foo")
    send_and_check(fleet, "foo", "after its host")
    assert list_user_messages(fleet, "foo")[1:] == ["again", "after its host"]
