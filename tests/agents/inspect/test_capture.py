"""Tests `mngr capture` as a user runs it."""

from __future__ import annotations

from tests.conftest import MngrProgram, wait_for


def test_capture_prints_the_screen_as_text(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--", "printf 'one\\n\\033[31mred ✓\\033[0m\\n'; exec sleep 1000")
    wait_for(lambda: "red" in mngr("capture", "foo").out)
    assert mngr("capture", "foo").out == "one\nred ✓\n"


def test_ansi_option_keeps_only_colours(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--", "printf '\\033[31mred\\033[0m \\033]0;title\\007plain\\n'; exec sleep 1000")
    wait_for(lambda: "plain" in mngr("capture", "foo").out)
    out = mngr("capture", "foo", "--ansi").out
    assert "\x1b[31mred\x1b[" in out
    assert out.endswith("\x1b[0m\n") or out.endswith("\x1b[0m")
    assert out.count("\x1b[") == out.count("\x1b")


def test_history_option_adds_lines_of_scrollback(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--", "seq 1 120; exec sleep 1000")
    wait_for(lambda: "120" in mngr("capture", "foo").out.split())
    lines = mngr("capture", "foo").out.split()
    assert "1" not in lines and len(lines) < 60
    assert mngr("capture", "foo", "--history", "5").out.split()[5:] == lines
    assert mngr("capture", "foo", "--history", "all").out.split() == [str(n) for n in range(1, 121)]


def test_capture_of_an_ended_agent_shows_its_last_screen(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--", "echo last words; exit 3")
    wait_for(lambda: mngr.get_agent("foo")["state"] == "FAILED")
    assert mngr("capture", "foo").out.startswith("last words\n")


def test_capture_of_a_stopped_agent_shows_the_saved_screen_with_a_note(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--", "printf '\\033[32mgreen\\033[0m\\n'; exec sleep 1000")
    wait_for(lambda: "green" in mngr("capture", "foo").out)
    mngr("stop", "foo")
    result = mngr("capture", "foo")
    assert result.out == "green\n"
    assert result.err == "foo is stopped; this is the last screen before it stopped\n"
    assert "\x1b[32mgreen" in mngr("capture", "foo", "--ansi").out
    assert "are not saved" in mngr("capture", "foo", "--history", "all").err
    captured = mngr.run_json("capture", "foo")
    assert (captured["v"], captured["name"], captured["is_live"], captured["text"]) == (1, "foo", False, "green\n")


def test_capture_errors_for_name_history_and_missing_screen(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--", "sleep", "1000")
    assert "there is no agent 'fo'" in mngr("capture", "fo", code=1).err
    assert "--history" in mngr("capture", "foo", "--history", "-3", code=2).err
    mngr("stop", "foo")
    (mngr.get_agent_dir("foo") / "screen").unlink()
    assert "foo has no screen, because it is STOPPED" in mngr("capture", "foo", code=1).err
