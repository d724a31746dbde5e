"""`mngr capture` from outside."""

from __future__ import annotations

from tests.conftest import MngrProgram, wait_for


def test_the_screen_is_text(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--", "printf 'one\\n\\033[31mred ✓\\033[0m\\n'; exec sleep 1000")
    wait_for(lambda: "red" in mngr("capture", "foo").out)
    assert mngr("capture", "foo").out == "one\nred ✓\n"


def test_colours_are_kept_on_request_and_nothing_else_is(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--", "printf '\\033[31mred\\033[0m \\033]0;title\\007plain\\n'; exec sleep 1000")
    wait_for(lambda: "plain" in mngr("capture", "foo").out)
    out = mngr("capture", "foo", "--ansi").out
    assert "\x1b[31mred\x1b[" in out
    assert out.endswith("\x1b[0m\n") or out.endswith("\x1b[0m")
    assert out.count("\x1b[") == out.count("\x1b")


def test_history_is_what_scrolled_away(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--", "seq 1 120; exec sleep 1000")
    wait_for(lambda: "120" in mngr("capture", "foo").out.split())
    shown = mngr("capture", "foo").out.split()
    assert "1" not in shown and len(shown) < 60
    assert mngr("capture", "foo", "--history", "5").out.split()[5:] == shown
    assert mngr("capture", "foo", "--history", "all").out.split() == [str(n) for n in range(1, 121)]


def test_an_agent_that_ended_still_shows_its_last_screen(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--", "echo last words; exit 3")
    wait_for(lambda: mngr.get_agent("foo")["state"] == "FAILED")
    assert mngr("capture", "foo").out.startswith("last words\n")


def test_a_stopped_agent_shows_its_screen_as_it_was_and_says_so(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--", "printf '\\033[32mgreen\\033[0m\\n'; exec sleep 1000")
    wait_for(lambda: "green" in mngr("capture", "foo").out)
    mngr("stop", "foo")
    ran = mngr("capture", "foo")
    assert ran.out == "green\n"
    assert ran.err == "foo is stopped; this is its screen as it was then\n"
    assert "\x1b[32mgreen" in mngr("capture", "foo", "--ansi").out
    assert "gone" in mngr("capture", "foo", "--history", "all").err
    found = mngr.run_json("capture", "foo")
    assert (found["v"], found["name"], found["live"], found["text"]) == (1, "foo", False, "green\n")


def test_errors(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--", "sleep", "1000")
    assert "there is no agent 'fo'" in mngr("capture", "fo", code=1).err
    assert "--history" in mngr("capture", "foo", "--history", "-3", code=2).err
    mngr("stop", "foo")
    (mngr.get_agent_dir("foo") / "screen").unlink()
    assert "foo has no screen: it is STOPPED" in mngr("capture", "foo", code=1).err
