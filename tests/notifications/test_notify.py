"""Tests the command line and the settings of `mngr notify`."""

from __future__ import annotations

import pytest

from mngr.base.trust.setting_trust_levels import USER_ONLY, classify_setting
from tests.conftest import MngrProgram
from tests.support.web_receiver import WebReceiver


def test_settings_of_a_project_are_never_used(mngr: MngrProgram) -> None:
    (mngr.repo / ".mngr").mkdir()
    text = '[notify]\nchannels = ["command"]\ncommand = "touch pwned"\n[commands.notify]\nchannel = ["desktop"]\n'
    (mngr.repo / ".mngr" / "settings.toml").write_text(text)
    assert "no channel for notifications is configured" in mngr("notify", "--test", code=1).err
    assert not (mngr.repo / "pwned").exists()
    for key in ("channels", "filter", "command", "webhook_url", "ntfy_server", "ntfy_topic", "timeout"):
        assert classify_setting(f"notify.{key}") == USER_ONLY


@pytest.mark.parametrize(
    ("words", "code", "problem", "hint"),
    [
        (["--follow"], 1, "no channel for notifications is configured", "mngr config set notify.channels"),
        (["--test", "--channel", "slack"], 2, "there is no channel 'slack'", "--channel desktop"),
        (["--test", "--channel", "ntfi"], 2, "there is no channel 'ntfi'", "did you mean 'ntfy'?"),
        (
            ["--test", "-S", "notify.channels=slack"],
            1,
            "there is no channel 'slack'",
            "mngr config set notify.channels",
        ),
        (["--test", "--channel", "webhook"], 1, "needs a URL", "mngr config set notify.webhook_url https://"),
        (["--test", "--channel", "webhook", "-S", "notify.webhook_url=ftp://x"], 1, "'ftp://x'", "notify.webhook_url"),
        (["--test", "--channel", "webhook", "-S", "notify.webhook_url=http://[x"], 1, "'http://[x'", "https://"),
        (["--test", "--channel", "webhook", "-S", "notify.webhook_url=http://a:b/"], 1, "'http://a:b/'", "https://"),
        (["--test", "--channel", "ntfy"], 1, "needs a topic", "mngr config set notify.ntfy_topic"),
        (["--test", "--channel", "ntfy", "-S", "notify.ntfy_topic=a/b"], 1, "'a/b'", "mngr config set"),
        (["--test", "--channel", "command"], 1, "needs a command", "mngr config set notify.command"),
        (["--follow", "--channel", "desktop", "--filter", "evnt == x"], 2, "there is no field 'evnt'", "'event'"),
        (["--follow", "--channel", "desktop", "--filter", "event =="], 2, "expected a value", "for example"),
        (["--follow", "--channel", "desktop", "-S", "notify.filter=event"], 1, "notify.filter", "mngr config set"),
        (["--follow", "-S", "notify.timeout=soon"], 2, "is not a length of time", "90s"),
        (["--follow", "--test"], 2, "cannot be combined", "mngr notify --test"),
        (["--follow", "--json"], 2, "cannot be combined", "--format jsonl"),
        (["--channel", "desktop"], 2, "need --follow or --test", "mngr notify --follow"),
    ],
)
def test_wrong_input_is_an_error_with_a_next_command(
    mngr: MngrProgram, words: list[str], code: int, problem: str, hint: str
) -> None:
    result = mngr("notify", *words, code=code)
    error, _, next_step = result.err.partition('"hint":' if "--json" in words else "Hint: ")
    assert problem in error and hint in next_step
    assert "Traceback" not in result.err


def test_the_test_says_of_each_channel_whether_it_works(mngr: MngrProgram, receiver: WebReceiver) -> None:
    settings = ["-S", f"notify.webhook_url={receiver.url}/hook", "-S", f"notify.ntfy_server={receiver.url}"]
    settings += ["-S", "notify.ntfy_topic=topic", "-S", "notify.command=exit 3"]
    channels = ["--channel", "webhook", "--channel", "ntfy", "--channel", "command"]
    result = mngr("notify", "--test", *settings, *channels, code=4)
    assert result.out.splitlines() == [
        "webhook: works (127.0.0.1 answered with HTTP status 200)",
        "ntfy: works (127.0.0.1 answered with HTTP status 200)",
    ]
    assert "Error: command does not work: the command exited with code 3" in result.err
    assert sorted(request.path for request in receiver.requests) == ["/hook", "/topic"]
    assert mngr("notify", "--test", *settings, *channels[:4]).code == 0
    assert mngr("notify", "--test", *settings, *channels[4:], code=1).err.startswith("Error: command does not work")
    rows = mngr.run_json("notify", "--test", *settings, *channels, code=4)["results"]
    assert [(row["name"], row["ok"]) for row in rows] == [("webhook", True), ("ntfy", True), ("command", False)]


def test_without_any_notification_the_list_is_empty(mngr: MngrProgram) -> None:
    assert mngr.run_json("notify")["notifications"] == []
    assert "mngr notify --follow" in mngr("notify").err
