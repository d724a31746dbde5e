"""Claude Code on other hosts and behind walls: the same life as here."""

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
    """In front of a model: lets in who has a token that is not among the `dead`."""

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
            said = {"type": "error", "error": {"type": "authentication_error", "message": "it has expired"}}
            self._send(401, "application/json", json.dumps(said).encode())
            return
        url = f"http://127.0.0.1:{self.server.model.port}{self.path}"
        ask = urllib.request.Request(url, body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(ask) as answer:
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
    with Gate(model) as found:
        yield found
        found.shutdown()


@pytest.fixture
def fleet(coder: MngrProgram, gate: Gate) -> MngrProgram:
    """Whose user is logged in."""
    coder.env.update(ANTHROPIC_BASE_URL=gate.url, MNGR__AGENTS__CLAUDE__ENV__CLAUDE_CODE_MAX_RETRIES="0")
    log_in(coder, "token-1")
    return coder


def log_in(fleet: MngrProgram, token: str) -> None:
    """As the program does it, for the user himself."""
    path = Path(fleet.env["HOME"]) / ".claude/.credentials.json"
    path.parent.mkdir(exist_ok=True)
    until = int(time.time() + 3600) * 1000
    part = {
        "accessToken": token,
        "refreshToken": "renews-it",
        "expiresAt": until,
        "scopes": ["user:inference"],
    }
    path.write_text(json.dumps({"claudeAiOauth": part}))


def renew(fleet: MngrProgram, gate: Gate, token: str) -> None:
    """By another program of the user's: every earlier token is dead."""
    gate.dead.update(gate.seen)
    log_in(fleet, token)


def rows(fleet: MngrProgram, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = fleet.run_json("transcript", name)["transcript"]
    return found


def said(fleet: MngrProgram, name: str) -> list[str]:
    return [row["text"].rstrip() for row in rows(fleet, name) if row["role"] == "user"]


def state(fleet: MngrProgram, name: str) -> tuple[str, str | None]:
    agent = fleet.get_agent(name)
    return agent["state"], agent["state_reason"]


def tell(fleet: MngrProgram, name: str, text: str, ends: str = "WAITING (end_of_turn)") -> None:
    assert f"now {ends}\n" in fleet("message", name, "-m", text, "--wait", "--timeout", "60").out
    found = rows(fleet, name)
    assert [row["text"].rstrip() for row in found if row["role"] == "user"][-1] == text
    assert found[-1]["role"] == "assistant" or "PARKED" in ends


def live(fleet: MngrProgram, gate: Gate, address: str, *words: str) -> None:
    """From `create` to a second turn after a stop, during which the user's login is renewed; all of it is seen from here."""
    first = fake(ASKS, "first")
    fleet("create", address, "claude", "--no-connect", *words, "-m", first)
    name = address.partition("@")[0]
    fleet("wait", name, "--timeout", "60")
    if "--yolo" not in words:
        assert state(fleet, name) == ("WAITING", "permission")
        fleet("message", name, "--allow", "--wait", "--timeout", "60")
    assert state(fleet, name) == ("WAITING", "end_of_turn")
    assert fleet("exec", name, "--", "cat", "out.txt").out == "hi\n"
    before = rows(fleet, name)
    assert [row["role"] for row in before] == ["user", "assistant", "tool", "assistant"]
    assert before[0]["text"] == first and before[-1]["text"] == "all done"
    fleet("stop", name)
    assert rows(fleet, name) == before
    renew(fleet, gate, "token-2")
    fleet("start", name)
    tell(fleet, name, "again")
    assert rows(fleet, name)[:4] == before
    (used,) = fleet.run_json("usage", name)["usage"]
    assert used["input_tokens"] > 0 and used["output_tokens"] > 0


def logins(place: Path) -> list[dict[str, Any]]:
    """The agents' own, below a directory."""
    return [json.loads(path.read_text())["claudeAiOauth"] for path in place.rglob(".credentials.json")]


@pytest.mark.full
def test_over_ssh_and_back(fleet: MngrProgram, gate: Gate, farm: Farm) -> None:
    fleet.env["MNGR__PROVIDERS__SSH__CONFIG"] = str(farm.config)
    fleet.env["MNGR__AGENTS__CLAUDE__PROGRAM"] = "~/bin/claude"
    home = farm.home("h1")
    for place in (home, Path(fleet.env["HOME"])):
        (place / "bin").mkdir()
        (place / "bin/claude").symlink_to(PROGRAM)
    live(fleet, gate, "foo@h1")
    (there,) = logins(home / ".mngr/agents")
    assert there["accessToken"] == "token-2" and "refreshToken" not in there
    failed = fleet("clone", "foo", "bar@h2", code=1)
    assert f"{farm.home('h2')}/bin/claude: command not found" in failed.err and "get it on h2" in failed.err
    # The conversation goes along.
    fleet("clone", "foo", "bar@local", "--no-start")
    fleet("migrate", "bar", "@h1")
    fleet("start", "bar")
    tell(fleet, "bar", "there")
    fleet("migrate", "bar", "@local")
    tell(fleet, "bar", "home")
    assert said(fleet, "foo")[1:] == ["again"]
    assert said(fleet, "bar")[1:] == ["again", "there", "home"]
    assert fleet("exec", "bar", "--", "cat", "out.txt").out == "hi\n"
    mine = fleet.get_agent_dir("bar") / "claude/.credentials.json"
    assert mine.readlink() == Path(fleet.env["HOME"]) / ".claude/.credentials.json"
    assert "refreshToken" in logins(Path(fleet.env["HOME"]) / ".claude")[0]
    assert gate.seen[0] == "token-1" and gate.seen[-1] == "token-2"


def test_behind_walls(fleet: MngrProgram, gate: Gate) -> None:
    live(fleet, gate, "foo", "--sandbox", "--yolo")
    renew(fleet, gate, "token-3")
    tell(fleet, "foo", "too late", ends="PARKED (login)")
    tell(fleet, "foo", "go on")
    (there,) = logins(fleet.home / "agents")
    assert there["accessToken"] == "token-3" and "refreshToken" not in there


if IS_FULL_SCALE:

    def test_in_a_docker_container(fleet: MngrProgram, gate: Gate, docker_engine: Docker, tmp_path: Path) -> None:
        """By an image with the program in it."""
        (tmp_path / "image").mkdir()
        os.link(PROGRAM, tmp_path / "image/claude")
        (tmp_path / "image/Dockerfile").write_text(
            f"FROM {docker_engine.image}\nCOPY claude /opt/bin/claude\nENV PATH=/opt/bin:/usr/bin:/bin\n"
        )
        contain(fleet, gate, "docker", docker_engine, "-b", f"dockerfile={tmp_path}/image/Dockerfile")

    def test_in_a_podman_container(fleet: MngrProgram, gate: Gate, podman_engine: Podman) -> None:
        """With the program of this machine."""
        fleet.env["MNGR__PROVIDERS__PODMAN__KIND"] = "docker"
        fleet.env["MNGR__PROVIDERS__PODMAN__PROGRAM"] = "podman"
        fleet.env["MNGR__AGENTS__CLAUDE__PROGRAM"] = "/opt/claude"
        contain(fleet, gate, "podman", podman_engine, "-b", f"volumes+={PROGRAM}:/opt/claude:ro")


def contain(fleet: MngrProgram, gate: Gate, provider: str, engine: Engine, *words: str) -> None:
    """In containers that share this machine's network, for that is where the model is."""
    fleet.env.update({**settings(provider), **engine.env})
    live(fleet, gate, f"foo@box.{provider}", "-b", "network=host", *words)
    fleet("create", f"bar@box.{provider}", "claude", "--yolo", "--no-connect", "-m", fake(ASKS))
    fleet("wait", "bar", "--timeout", "60")
    assert state(fleet, "bar") == ("WAITING", "end_of_turn")
    assert fleet("exec", "bar", "--", "cat", "out.txt").out == "hi\n"
    fleet("stop", f"@box.{provider}")
    fleet("start", "foo")
    tell(fleet, "foo", "after its host")
    assert said(fleet, "foo")[1:] == ["again", "after its host"]
