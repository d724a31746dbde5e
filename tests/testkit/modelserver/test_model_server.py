"""The command `mngr model-server`."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from mngr.testkit.contract.mngr_program import BackgroundProgram
from tests.conftest import BIN_DIR, MngrProgram, wait_for


def ask(url: str, text: str = "hi") -> str:
    body = {"model": "m", "messages": [{"role": "user", "content": text}], "tools": [{"name": "Bash"}]}
    with urllib.request.urlopen(f"{url}/v1/messages", json.dumps(body).encode(), timeout=10) as answer:
        text_reply: str = json.load(answer)["content"][0]["text"]
        return text_reply


def test_the_server_prints_its_url_plays_the_script_and_logs(mngr: MngrProgram, tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    script.write_text('{"sessions": {"foo": [{"text": "for foo"}]}, "steps": [{"text": "for all"}]}')
    log, dump = tmp_path / "log", tmp_path / "dump"
    with BackgroundProgram(mngr, "model-server", str(script), "--log", str(log), "--dump", str(dump)) as process:
        url = process.read_line()
        assert url.startswith("http://127.0.0.1:")
        assert [ask(url + "/s/foo"), ask(url + "/s/bar"), ask(url + "/s/foo")] == ["for foo", "for all", "ok"]
        rows = [json.loads(line) for line in log.read_text().splitlines()]
        assert [(row["session"], row["answer"]["text"]) for row in rows] == [
            ("foo", "for foo"), ("bar", "for all"), ("foo", "ok"),
        ]  # fmt: skip
        assert len(list(dump.iterdir())) == 3
    assert not mngr.home.exists()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_the_server_while_a_client_waits(mngr: MngrProgram, number: int, code: int) -> None:
    with BackgroundProgram(mngr, "model-server", '[{"hang": true}]', "--format", "json") as process:
        info = json.loads(process.read_line())
        assert (info["v"], info["pid"]) == (1, process.process.pid)
        port = int(info["url"].rpartition(":")[2])
        client = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        client.request("POST", "/v1/messages", json.dumps({"messages": [], "tools": [{"name": "Bash"}]}))
        wait_for(lambda: _health(info["url"])["requests"] == 1)
        os.kill(info["pid"], number)
        result = process.wait_for_end(timeout=10)
        assert (result.code, result.out, result.err) == (code, "", "")
        client.close()


def _health(url: str) -> Any:
    with urllib.request.urlopen(url + "/_health", timeout=10) as answer:
        return json.load(answer)


def start_in_shell(mngr: MngrProgram, command: str) -> subprocess.Popen[str]:
    """Start a shell command in the repository of the test."""
    return subprocess.Popen(["sh", "-c", command], cwd=mngr.repo, env=mngr.env, stdout=subprocess.PIPE, text=True)


def test_a_background_server_survives_an_interrupt(mngr: MngrProgram) -> None:
    with start_in_shell(mngr, "trap '' INT; exec mngr model-server '[]'") as process:
        assert process.stdout
        url = process.stdout.readline().strip()
        process.send_signal(signal.SIGINT)
        assert ask(url) == "ok"
        process.terminate()
        assert process.wait(10) == 143


def test_too_many_connections_do_not_end_the_server(mngr: MngrProgram) -> None:
    with start_in_shell(mngr, "ulimit -n 24; exec mngr model-server '[]'") as process:
        assert process.stdout
        url = process.stdout.readline().strip()
        port = int(url.rpartition(":")[2])
        for client in [socket.create_connection(("127.0.0.1", port)) for _ in range(40)]:
            client.close()
        assert ask(url) == "ok"
        process.terminate()


def test_a_full_disk_is_reported_and_does_not_end_the_server(mngr: MngrProgram) -> None:
    with BackgroundProgram(mngr, "model-server", "[]", "--log", "/dev/full") as process:
        url = process.read_line()
        assert ask(url) == ask(url) == "ok"
        assert _health(url) == {"ok": True, "requests": 2, "trouble": "cannot write the log: No space left on device"}


def test_the_script_can_come_from_stdin_and_the_url_can_be_formatted(mngr: MngrProgram) -> None:
    with subprocess.Popen(
        [BIN_DIR / "mngr", "model-server", "-", "--format", "at {url}"],
        cwd=mngr.repo, env=mngr.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdin and process.stdout
        process.stdin.write('[{"text": "from standard input"}]')
        process.stdin.close()
        line = process.stdout.readline()
        assert ask(line.removeprefix("at ").strip()) == "from standard input"
        process.terminate()


def test_address_and_port_can_be_chosen_unless_they_are_in_use(mngr: MngrProgram) -> None:
    with BackgroundProgram(mngr, "model-server", "[]", "--listen", "127.0.0.2") as process:
        url = process.read_line()
        assert url.startswith("http://127.0.0.2:") and ask(url) == "ok"
        port = url.rpartition(":")[2]
        result = mngr("model-server", "[]", "--listen", "127.0.0.2", "--port", port, code=1)
        assert f"cannot listen on 127.0.0.2 port {port}: Address already in use" in result.err
    with BackgroundProgram(mngr, "model-server", "[]", "--port", port) as process:
        assert process.read_line() == f"http://127.0.0.1:{port}"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (['[{"text": "a"}, {"sh": 1}]'], "step 2: sh must be a string, not 1"),
        (["[{"], "the script is not JSON"),
        (["missing.json"], "cannot read the script missing.json: No such file or directory"),
        ([], "mngr model-server needs SCRIPT"),
        (["[]", "--port", "65536"], "65536 is not a valid port"),
        (["[]", "--log", "no/such/place"], "cannot write no/such/place"),
        (["[]", "--dump", "README.md"], "cannot write README.md"),
    ],
)
def test_an_invalid_script_port_or_path_is_rejected_at_once(mngr: MngrProgram, words: list[str], message: str) -> None:
    result = mngr("model-server", *words, code=2)
    assert message in result.err and "Hint: " in result.err and result.out == ""
