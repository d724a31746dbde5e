"""Commands in a session: output, transcript, isolation and cleanup."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from mngr.e2e import CommandTimeout, E2eSession, expect
from mngr.e2e.session_dirs import kill_processes_of
from tests.conftest import wait_for


def read_transcript(session: E2eSession) -> str:
    return session.transcript.path.read_text()


def test_both_streams_are_separate_and_in_order(session: E2eSession) -> None:
    turns = "".join(f"echo {n} >&{1 + n % 2}; sleep 0.02; " for n in range(20))
    result = session.run(f"{turns} exit 3", comment="one after\nthe other")
    assert result.output == "".join(f"{n}\n" for n in range(20))
    assert result.stdout == "".join(f"{n}\n" for n in range(0, 20, 2))
    assert result.stderr == "".join(f"{n}\n" for n in range(1, 20, 2))
    expected = "".join(f"{'!' if n % 2 else ' '} {n}\n" for n in range(20))
    command = f"$ {turns} exit 3\n"
    assert read_transcript(session) == f"# one after\n# the other\n{command}{expected}? 3\n"


def test_the_order_of_streams_is_right_when_the_reader_is_late(session: E2eSession) -> None:
    """The program writes to both streams without a pause, while the reader is busy."""
    loop = "for n in range(2000): os.write(1 + (n * 7 % 3 == 0), b'%d\\n' % n)"
    result = session.run(f'python3 -c "import os\n{loop}"')
    assert result.output == "".join(f"{n}\n" for n in range(2000))
    assert result.stderr == "".join(f"{n}\n" for n in range(0, 2000, 3))


def test_a_multi_line_command_that_a_signal_ends_has_exit_code_143(session: E2eSession) -> None:
    result = session.run("echo a\nkill -TERM $$")
    assert result.exit_code == 128 + 15
    assert read_transcript(session) == "$ echo a\n$ kill -TERM $$\n  a\n? 143\n"


def test_a_command_loses_the_indentation_of_the_test(session: E2eSession) -> None:
    result = session.run("""
        cat <<'EOF'
        one
          two
        EOF
    """)
    assert result.stdout == "one\n  two\n"
    assert read_transcript(session).startswith("$ cat <<'EOF'\n$ one\n$   two\n$ EOF\n")


def test_stdin_is_empty_by_default(session: E2eSession) -> None:
    assert session.run("cat").stdout == ""
    assert session.run("cat", stdin="é\n" * 100_000).stdout == "é\n" * 100_000
    assert session.run("true", stdin=b"x" * 1_000_000).exit_code == 0


def test_binary_output_is_shown_escaped(session: E2eSession) -> None:
    result = session.run(r"printf 'a\377b\000\033[31mred\tx\r\n'; printf 'no end'")
    assert result.stdout == "a\\xffb\0\x1b[31mred\tx\r\nno end"
    assert read_transcript(session).splitlines()[1:-1] == ["  a\\xffb\\x00\\x1b[31mred\tx", "  no end"]


def test_a_character_that_arrives_in_two_parts_is_shown_whole(session: E2eSession) -> None:
    session.run(r"printf '\303'; sleep 0.1; printf '\251\n'")
    assert "  é\n" in read_transcript(session)


def test_a_timeout_kills_the_whole_process_group(session: E2eSession) -> None:
    with pytest.raises(CommandTimeout) as caught:
        session.run(
            "sleep 1000 & echo $! > pid; echo hi; printf 'your name? '; cat /dev/zero > /dev/null",
            timeout=0.5,
        )
    assert "did not finish within 0.5s" in str(caught.value)
    assert "  your name?" in str(caught.value)
    assert read_transcript(session).endswith("  hi\n  your name? \n? timed out after 0.5s and was killed\n")
    child = int((session.cwd / "pid").read_text())
    wait_for(lambda: not Path(f"/proc/{child}").exists())


def test_an_unfinished_line_is_shown_while_the_command_waits(session: E2eSession) -> None:
    process = subprocess.Popen([sys.executable, "-c", _WAITING, str(session.artifacts.parent / "other")])
    path = session.artifacts.parent / "other" / "transcript.txt"
    wait_for(lambda: path.exists() and "  your name? " in path.read_text())
    process.kill()
    process.wait()
    assert path.read_text() == "$ printf 'your name? '; sleep 1000\n  your name? "
    meta = json.loads((path.parent / "meta.json").read_text())
    assert meta["status"] == "running"
    kill_processes_of(path.parent)


_WAITING = """
import sys
from pathlib import Path
from mngr.e2e import E2eSession
E2eSession(Path(sys.argv[1])).run("printf 'your name? '; sleep 1000", timeout=20)
"""


def test_background_processes_end_with_the_session(tmp_path: Path) -> None:
    session = E2eSession(tmp_path / "artifacts")
    socket = tmp_path / "socket"
    session.run(f"tmux -f /dev/null -S {socket} new-session -d 'sleep 1000'")
    assert socket.is_socket()
    result = session.run("sleep 1000 & echo $! > one; setsid sleep 1000 & echo $! > two; echo done")
    assert (result.stdout, result.exit_code) == ("done\n", 0)
    assert result.seconds < 5
    pids = [int((session.cwd / name).read_text()) for name in ("one", "two")]
    assert all(Path(f"/proc/{pid}").exists() for pid in pids)
    session.close()
    wait_for(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids))
    assert not session.root.exists() and not socket.exists()


@pytest.mark.parametrize("command", ["yes 0123456789abcdef | head -c 60000000", "head -c 60000000 /dev/zero"])
def test_huge_output_uses_bounded_memory(session: E2eSession, command: str) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    result = session.run(command)
    assert "bytes omitted" in result.stdout
    assert len(result.stdout) < 9_000_000
    growth = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert growth < 120_000, f"{growth} kB more"
    assert "characters omitted]" in read_transcript(session)
    assert session.transcript.path.stat().st_size < 2_000_000


def test_commands_do_not_see_the_users_home_and_variables(session: E2eSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_SECRET_TOKEN", "hunter2hunter2")
    output = session.run("env; git config user.email; ls -A ~ | head").stdout
    assert "MY_SECRET_TOKEN" not in output
    assert "LANG=C.UTF-8\n" in output and "TZ=UTC\n" in output and "COLUMNS=80\n" in output
    assert "test@example.invalid\n.gitconfig\n" in output
    for name in ("HOME", "TMPDIR", "TMUX_TMPDIR", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR", "GIT_CONFIG_GLOBAL"):
        assert f"{name}={session.root}/" in output


def test_allowed_variables_and_paths_are_listed_and_their_secrets_redacted(
    session: E2eSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("MY_SECRET_TOKEN", "hunter2hunter2")
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".cache").mkdir()
    (tmp_path / ".cache" / "x").write_text("cached")
    session.allow_env("MY_SECRET_TOKEN")
    session.allow_path("~/.cache/x")
    result = session.run('printf "%s" "$MY_SECRET_TOKEN"; cat ~/.cache/x; echo hunter2hunter2 >&2')
    assert result.stdout == "hunter2hunter2cached"
    assert "hunter2" not in read_transcript(session).replace(result.command, "")
    assert "[redacted: MY_SECRET_TOKEN]cached" in read_transcript(session)
    meta = json.loads((session.artifacts / "meta.json").read_text())
    assert meta["allowed"] == {"env": ["MY_SECRET_TOKEN"], "paths": ["~/.cache/x"]}
    with pytest.raises(AssertionError) as caught:
        expect(result.stderr).to_contain("something else")
    assert "hunter2" not in str(caught.value)


def test_secrets_that_arrive_in_parts_are_redacted(session: E2eSession) -> None:
    session.run("printf 'key: sk-proj-'; sleep 0.1; printf '%s' abcdef01; sleep 0.1; echo 23456789")
    lines = ["-----BEGIN X PRIVATE KEY-----", "MIIaaaa", "MIIbbbb", "-----END X PRIVATE KEY-----", "after"]
    session.run("".join(f"printf '%s\\n' '{line[:4]}''{line[4:]}'; sleep 0.06; " for line in lines))
    session.run('echo "$MY_TOKEN"', env={"MY_TOKEN": "hunter2hunter2"})
    session.run("printf hunter2; sleep 0.1; echo hunter2; echo done")
    output_lines = [line for line in read_transcript(session).splitlines() if line.startswith("  ")]
    assert output_lines == [
        "  key: [redacted: an API key]",
        "  [redacted: a private key]",
        "  after",
        "  [redacted: MY_TOKEN]",
        "  [redacted: MY_TOKEN]",
        "  done",
    ]


def test_a_command_runs_with_the_given_directory_and_variables(session: E2eSession) -> None:
    (session.cwd / "below").mkdir()
    assert session.run("pwd; echo $A", cwd="below", env={"A": "b c"}).stdout == f"{session.cwd}/below\nb c\n"
    assert os.environ.get("A") is None


def test_captured_names_are_filled_into_later_commands(session: E2eSession) -> None:
    expect(session.run("echo made agent-17 at 12:00:01").stdout).to_match_lines("made <agent> at [TIME]")
    assert session.run("echo '<agent>' '<other>'").stdout == "agent-17 <other>\n"


def test_cited_blocks_are_written_to_the_metadata(session: E2eSession) -> None:
    session.write_tutorial_block("""
        # see it
        mngr list
    """)
    assert json.loads((session.artifacts / "meta.json").read_text())["blocks"] == ["# see it\nmngr list"]


def test_cd_changes_the_directory_of_later_commands(session: E2eSession) -> None:
    session.run("mkdir -p 'a b/c'")
    session.cd("a b")
    session.cd("c")
    expect(session.run("pwd").stdout).to_match_lines("[CWD]")
    assert session.cwd == session.root / "place" / "a b" / "c"
    assert "$ cd a b\n? 0\n$ cd c\n? 0\n" in read_transcript(session)
    with pytest.raises(AssertionError, match=r"cd: there is no directory .*/c/gone"):
        session.cd("gone")
    assert session.run("pwd").stdout == f"{session.cwd}\n"
