"""Tests the channels with a real web server, real commands and a real terminal."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mngr.notifications.channels.channel import DeliveryFailed
from mngr.notifications.channels.command import CommandChannel
from mngr.notifications.channels.desktop import DesktopChannel, build_terminal_sequence
from mngr.notifications.channels.web_request import NtfyChannel, WebhookChannel
from mngr.notifications.notification import Notification
from tests.support.web_receiver import WebReceiver

HOSTILE = "foo asks: “$(touch pwned) `touch pwned` '; touch pwned; \" %s -n é”"
ITEM = Notification(
    id="id-1", at="2026-11-19T18:00:00.000Z", event="permission", name="foo", title="foo asks for permission", text=HOSTILE,
    question="$(touch pwned)", commands=("mngr message foo --allow",), labels={"team": "red"},
)  # fmt: skip


def test_the_webhook_gets_the_notification_as_json(receiver: WebReceiver) -> None:
    details = WebhookChannel(receiver.url + "/hook?key=1", 5.0).deliver(ITEM)
    (request,) = receiver.requests
    assert (request.path, request.headers["Content-Type"]) == ("/hook?key=1", "application/json")
    body = request.parse_json()
    assert (body["v"], body["id"], body["event"], body["name"]) == (1, "id-1", "permission", "foo")
    assert (body["text"], body["commands"], body["labels"]) == (HOSTILE, ["mngr message foo --allow"], {"team": "red"})
    assert "200" in details


def test_ntfy_gets_the_text_at_its_topic_with_a_token_from_a_file(receiver: WebReceiver, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("tk_secret\n")
    NtfyChannel(receiver.url + "/my-agents", str(tmp_path / "token"), 5.0).deliver(ITEM)
    (request,) = receiver.requests
    assert (request.path, request.body.decode()) == ("/my-agents", HOSTILE)
    assert request.headers["Title"] == "foo asks for permission"
    assert request.headers["Priority"] == "high"
    assert request.headers["Authorization"] == "Bearer tk_secret"


@pytest.mark.parametrize(("code", "is_final"), [(400, True), (404, True), (307, True), (429, False), (500, False)])
def test_an_error_of_the_server_is_a_failure_and_only_some_are_tried_again(
    receiver: WebReceiver, code: int, is_final: bool
) -> None:
    receiver.answer = lambda request: code
    with pytest.raises(DeliveryFailed, match=f"127.0.0.1 answered with HTTP status {code}") as caught:
        WebhookChannel(receiver.url, 5.0).deliver(ITEM)
    assert caught.value.is_final == is_final
    assert len(receiver.requests) == 1  # A redirect is not followed.


def test_a_server_that_sends_its_answer_byte_by_byte_does_not_exceed_the_time_limit(receiver: WebReceiver) -> None:
    receiver.answer = lambda request: None
    started_at = time.monotonic()
    with pytest.raises(DeliveryFailed, match="did not answer within 1s"):
        WebhookChannel(receiver.url, 1.0).deliver(ITEM)
    assert time.monotonic() - started_at < 3.0


def test_a_server_that_does_not_exist_is_a_failure_that_does_not_show_the_whole_url() -> None:
    with pytest.raises(DeliveryFailed) as caught:
        WebhookChannel("http://127.0.0.1:9/secret-path", 5.0).deliver(ITEM)
    assert "refused" in caught.value.message and "secret" not in f"{caught.value} {caught.value.hint}"


def test_a_server_with_tls_needs_a_trusted_certificate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    certificate = tmp_path / "certificate.pem"
    argv = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=receiver"]
    argv += [
        "-addext",
        "subjectAltName=IP:127.0.0.1",
        "-keyout",
        str(certificate),
        "-out",
        str(tmp_path / "public.pem"),
    ]
    subprocess.run(argv, capture_output=True, check=True)
    with certificate.open("a") as file:
        file.write((tmp_path / "public.pem").read_text())
    receiver = WebReceiver(certificate)
    with pytest.raises(DeliveryFailed, match=r"could not send to 127\.0\.0\.1"):
        WebhookChannel(receiver.url, 5.0).deliver(ITEM)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "public.pem"))
    WebhookChannel(receiver.url, 5.0).deliver(ITEM)
    assert [item["id"] for item in receiver.list_json()] == ["id-1"]
    receiver.close()


def test_a_command_gets_json_variables_and_the_text_and_no_shell_reads_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUT", str(tmp_path))
    command = 'cd "$OUT"; cat >json; printf %s "$1" >text; printf %s "$MNGR_EVENT|$MNGR_TEXT|$MNGR_NOTIFICATION_ID" >variables'
    CommandChannel(command, 10.0).deliver(ITEM)
    assert json.loads((tmp_path / "json").read_text())["question"] == "$(touch pwned)"
    assert (tmp_path / "text").read_text() == HOSTILE
    assert (tmp_path / "variables").read_text() == f"permission|{HOSTILE}|id-1"
    assert sorted(os.listdir(tmp_path)) == ["json", "text", "variables"]


def test_a_command_that_hangs_is_killed_with_its_children(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUT", str(tmp_path))
    started_at = time.monotonic()
    with pytest.raises(DeliveryFailed, match=r"did not end within 0\.5s"):
        CommandChannel('sleep 1000 & echo $! >"$OUT/child"; wait', 0.5).deliver(ITEM)
    assert time.monotonic() - started_at < 5.0
    state = subprocess.run(
        ["ps", "-o", "stat=", "-p", (tmp_path / "child").read_text()], capture_output=True, check=False
    )
    assert state.stdout.strip()[:1] in (b"", b"Z")


def test_a_command_that_leaves_a_program_running_counts_as_delivered() -> None:
    started_at = time.monotonic()
    CommandChannel("sleep 20 &", 10.0).deliver(ITEM)
    assert time.monotonic() - started_at < 5.0


def test_a_command_that_fails_is_a_failure_with_its_last_line() -> None:
    with pytest.raises(DeliveryFailed, match="exited with code 3: no such phone"):
        CommandChannel("echo x >&2; echo 'no such \x1b[31mphone' >&2; exit 3", 10.0).deliver(ITEM)


def install_program(directory: Path, name: str, code: int) -> None:
    """Install a program of the desktop that records its arguments."""
    directory.mkdir(exist_ok=True)
    program = directory / name
    program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$0" "$@" >>"{directory}/calls"\nexit {code}\n')
    program.chmod(0o755)


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory for programs of the desktop, which comes first on PATH."""
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    return tmp_path / "bin"


def test_the_desktop_uses_notify_send(programs: Path) -> None:
    install_program(programs, "notify-send", 0)
    assert DesktopChannel(5.0).deliver(ITEM.replace(text=ITEM.title + ": <b>x</b>")) == "shown by notify-send"
    lines = (programs / "calls").read_text().splitlines()
    assert lines[1:] == ["--app-name=mngr", "--", "foo asks for permission", "&lt;b&gt;x&lt;/b&gt;"]


def test_the_desktop_tries_the_next_way_when_one_fails(programs: Path) -> None:
    install_program(programs, "notify-send", 1)
    install_program(programs, "terminal-notifier", 0)
    assert DesktopChannel(5.0).deliver(ITEM) == "shown by terminal-notifier"


def test_the_terminal_gets_a_sequence_that_the_text_cannot_end(programs: Path) -> None:
    install_program(programs, "notify-send", 1)
    program = (
        "from tests.notifications.test_channels import ITEM, DesktopChannel; print(DesktopChannel(5.0).deliver(ITEM))"
    )
    controller, terminal = pty.openpty()
    env = {**os.environ, "TERM": "xterm-256color"}
    argv = [sys.executable, "-c", program]
    out = subprocess.run(argv, stderr=terminal, stdout=subprocess.PIPE, env=env, check=True).stdout
    os.close(terminal)
    shown = os.read(controller, 65536).decode()
    os.close(controller)
    assert b"sent to this terminal" in out
    assert shown == f"\x1b]777;notify;foo asks for permission;{HOSTILE}\x07"


def test_iterm_and_tmux_get_their_own_sequences() -> None:
    assert build_terminal_sequence(ITEM, {"TERM_PROGRAM": "iTerm.app"}) == f"\x1b]9;{HOSTILE}\x07"
    in_tmux = build_terminal_sequence(ITEM, {"TMUX": "/tmp/x"})
    assert in_tmux.startswith("\x1bPtmux;\x1b\x1b]777;") and in_tmux.endswith("\x07\x1b\\")


def test_a_desktop_without_any_way_is_a_failure_with_a_hint(programs: Path) -> None:
    install_program(programs, "notify-send", 1)
    program = "from tests.notifications.test_channels import ITEM, DesktopChannel; DesktopChannel(5.0).deliver(ITEM)"
    completed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "no way to show a notification works: notify-send: exit code 1" in completed.stderr
