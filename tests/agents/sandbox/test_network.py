"""Tests `mngr create --network`, which decides what an agent may connect to."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.conftest import MngrProgram, wait_for

pytestmark = pytest.mark.hosts

# Sends each METHOD TARGET through the proxy of the environment, and prints the status and the last line of the answer.
ASK = """
import os, socket, sys
place = os.environ["https_proxy"].rpartition("/")[2].split(":")
for line in sys.argv[1:]:
    with socket.create_connection((place[0], int(place[1])), timeout=20) as way:
        way.sendall(f"{line} HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n".encode())
        answer = b""
        while b"\\r\\n\\r\\n" not in answer:
            answer += way.recv(65536)
        if line.startswith("CONNECT") and b" 200 " in answer:
            way.sendall(b"GET / HTTP/1.0\\r\\n\\r\\n")
        while data := way.recv(65536):
            answer += data
    rows = answer.decode().strip().splitlines()
    print(rows[0].split()[1], rows[-1])
"""


class Site(BaseHTTPRequestHandler):
    """Answers each request with its path."""

    def do_GET(self) -> None:
        body = f"site {self.path}\n".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def port() -> Iterator[int]:
    """The port of a web server on this machine."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Site) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


def list_proxy_pids(directory: Path) -> list[int]:
    """Return the pids of the proxies that serve an agent."""
    pids = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        program = os.fsencode(directory / "network_proxy.py")
        if words[3:4] == [program] and words[4] == os.fsencode(directory):
            pids.append(int(path.parent.name))
    return pids


@pytest.mark.parametrize("sandbox", [["--sandbox"], []])
def test_allowed_addresses_are_reached_and_others_are_refused_and_logged(
    mngr: MngrProgram, port: int, sandbox: list[str]
) -> None:
    allow = f"allow=127.0.0.1:{port},example.invalid"
    mngr("create", "foo", *sandbox, "--network", allow, "--", "sleep", "1000")
    lines = [
        f"CONNECT 127.0.0.1:{port}",
        f"GET http://127.0.0.1:{port}/page",
        f"GET http://localhost:{port}/",
    ]
    lines += ["CONNECT 127.0.0.1:1", "CONNECT 127.0.0.1:1", "CONNECT example.invalid:22", "GET /"]
    rows = mngr("exec", "foo", "--", "python3", "-c", ASK, *lines).out.splitlines()
    assert rows[0] == "200 site /" and rows[1] == "200 site /page"
    assert [row.split()[0] for row in rows[2:]] == ["403", "403", "403", "502", "400"]
    denied = [row for row in mngr.run_json("events", "foo")["events"] if row["type"] == "denied"]
    assert [(row["source"], row["data"]["host"], row["data"]["port"]) for row in denied] == [
        ("proxy", "localhost", port),
        ("proxy", "127.0.0.1", 1),
    ]


def test_there_is_no_way_around_the_proxy(mngr: MngrProgram, port: int) -> None:
    mngr("create", "foo", "--sandbox", "--network", f"allow=127.0.0.1:{port}", "--", "sleep", "1000")
    program = f"import socket; socket.create_connection(('127.0.0.1', {port}), timeout=5)"
    assert "refused" in mngr("exec", "foo", "--", "python3", "-c", program, code=1).err
    assert mngr("exec", "foo", "--", "sh", "-c", "tail -n +3 /proc/net/dev | wc -l").out == "1\n"


def test_programs_use_the_proxy_from_the_environment(mngr: MngrProgram, port: int) -> None:
    mngr("create", "foo", "--sandbox", "--network", "allow=site.invalid", "--", "sleep", "1000")
    program = "import urllib.request as r\ntry: r.urlopen('http://other.invalid/')\nexcept OSError as e: print(e.code)"
    assert mngr("exec", "foo", "--", "python3", "-c", program).out == "403\n"
    names = "HTTP_PROXY HTTPS_PROXY ALL_PROXY http_proxy https_proxy all_proxy NO_PROXY".split()
    rows = mngr("exec", "foo", "--", "printenv", *names).out.splitlines()
    assert rows == ["http://127.0.0.1:3128"] * 6 + ["localhost,127.0.0.1,::1"]


def test_the_proxy_serves_the_agent_and_ends_with_it(mngr: MngrProgram, port: int) -> None:
    allow = f"allow=127.0.0.1:{port}"
    words = ["python3", "-c", ASK + "import time; time.sleep(1000)", f"GET http://127.0.0.1:{port}/agent"]
    mngr("create", "foo", "--sandbox", "--network", allow, "--", *words)
    wait_for(lambda: "200 site /agent" in mngr("capture", "foo").out)
    directory = mngr.get_agent_dir("foo")
    assert len(list_proxy_pids(directory)) == 1
    mngr("exec", "foo", "--", "true")
    wait_for(lambda: len(list_proxy_pids(directory)) == 1)
    mngr("stop", "foo")
    assert list_proxy_pids(directory) == []
    mngr("start", "foo")
    wait_for(lambda: list_proxy_pids(directory))
    mngr.run_tmux("kill-server")
    wait_for(lambda: not list_proxy_pids(directory))


def test_network_off_without_a_sandbox_removes_only_the_network(mngr: MngrProgram, port: int) -> None:
    words = ("--network", "off", "--transfer", "worktree", "--", "sleep", "1000")
    assert "because the agent would share your .git" in mngr("create", "foo", *words, code=2).err
    mngr("create", "foo", "--network", "off", "--", "sleep", "1000")
    assert (
        mngr.get_work_dir("foo") / ".git"
    ).is_dir()  # Its own repository: whoever writes to the user's could plant code there.
    program = f"import socket; socket.create_connection(('127.0.0.1', {port}), timeout=5)"
    assert "refused" in mngr("exec", "foo", "--", "python3", "-c", program, code=1).err
    mngr(
        "exec",
        "foo",
        "--",
        "sh",
        "-c",
        f"cat ~/.gitconfig && git commit -q --allow-empty -m x && [ -d {mngr.repo} ]",
    )
    socket = os.readlink(mngr.home / "tmux.socket")
    mngr("exec", "foo", "--", "sh", "-c", f'[ ! -e {socket} ] && [ -z "$(ls -A /run)" ]')
    caps = mngr("exec", "foo", "--", "grep", "CapEff", "/proc/self/status").out.split()[1]
    assert caps == "0" * 16


def test_a_sandbox_with_network_on_reaches_the_network(mngr: MngrProgram, port: int) -> None:
    mngr("create", "foo", "--sandbox", "--network", "on", "--", "sleep", "1000")
    program = f"import urllib.request as r; print(r.urlopen('http://127.0.0.1:{port}/x').read().decode())"
    assert mngr("exec", "foo", "--", "python3", "-c", program).out == "site /x\n\n"
    mngr("exec", "foo", "--", "sh", "-c", "[ ! -e /etc/resolv.conf ] || cat /etc/resolv.conf")


@pytest.mark.parametrize("text", ["maybe", "allow=", "allow=a:b", "allow=*.example.com", "off=x"])
def test_an_invalid_network_option_is_rejected(mngr: MngrProgram, text: str) -> None:
    assert "--network" in mngr("create", "foo", "--network", text, "--", "true", code=2).err
    assert not mngr.home.exists()
