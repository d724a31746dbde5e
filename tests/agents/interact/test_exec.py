"""Tests `mngr exec`: the agent's directory and environment, the caller's streams, and the command's exit code."""

from __future__ import annotations

import os
import signal
import subprocess

import pytest

from mngr.testkit.contract.pty_terminal import PtyTerminal
from tests.conftest import BIN_DIR, MngrProgram, wait_for

RUN = ("--", "sleep", "1000")


@pytest.fixture
def foo(mngr: MngrProgram) -> MngrProgram:
    mngr("create", "foo", "--env", "GIVEN=a b", *RUN)
    return mngr


def exec_bytes(mngr: MngrProgram, *words: str, data: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """Run `mngr exec` with binary input and output."""
    argv = [str(BIN_DIR / "mngr"), "exec", *words]
    return subprocess.run(argv, cwd=mngr.repo, env=mngr.env, input=data, capture_output=True, check=False)


def test_exec_uses_the_agents_directory_and_environment_and_both_streams(foo: MngrProgram) -> None:
    result = foo(
        "exec",
        "foo",
        "--",
        "sh",
        "-c",
        'pwd; echo "$GIVEN|$MNGR_AGENT_NAME|$SECRET"; echo oops >&2',
        env={"SECRET": "x"},
    )
    assert result.out == f"{foo.get_work_dir('foo')}\na b|foo|\n" and result.err == "oops\n"
    assert foo("exec", "foo", "--", "git", "rev-parse", "--abbrev-ref", "HEAD").out == "mngr/foo\n"
    assert foo("exec", foo.get_agent("foo")["id"], "--", "printf", "%s|", "a b", "$HOME", "").out == "a b|$HOME||"


def test_stdin_and_binary_output_pass_unchanged(foo: MngrProgram) -> None:
    data = bytes(range(256)) * 1000
    result = exec_bytes(foo, "foo", "--", "cat", data=data)
    assert (result.returncode, result.stdout, result.stderr) == (0, data, b"")


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("exit 0", 0),
        ("exit 7", 7),
        ("exit 125", 125),
        ("exit 255", 255),
        ("kill -TERM $$", 143),
        ("kill -9 $$", 137),
    ],
)
def test_exec_returns_the_exit_code_of_the_command(foo: MngrProgram, line: str, code: int) -> None:
    foo("exec", "foo", "--", "sh", "-c", line, code=code)
    (row,) = foo.run_json("exec", "foo", "--", "sh", "-c", line, code=code)["results"]
    assert (row["started"], row["exit_code"], row["ok"]) == (True, code, code == 0)
    assert not list(foo.get_agent_dir("foo").glob("exec-*"))


@pytest.mark.parametrize("word", ["no-such-program", "./nowhere", "src", "cd", ""])
def test_an_unknown_command_exits_1_and_runs_nothing(foo: MngrProgram, word: str) -> None:
    result = foo("exec", "foo", "--", word, code=1)
    message = f"mngr did not run the command in foo: {word}: command not found"
    hint = "see where the agent looks for programs: mngr exec foo -- printenv PATH"
    assert result.err == f"Error: {message}\nHint: {hint}\n"
    (row,) = foo.run_json("exec", "foo", "--", word, code=1)["results"]
    assert (row["started"], row["exit_code"], row["ok"]) == (False, None, False)
    assert not list(foo.get_agent_dir("foo").glob("exec-*"))


def test_exec_without_a_work_dir_fails_with_its_path(foo: MngrProgram) -> None:
    work_dir = foo.get_work_dir("foo")
    os.rename(work_dir, work_dir.with_name("moved"))
    assert f"the agent's work dir {work_dir} no longer exists" in foo("exec", "foo", "--", "true", code=1).err


def test_exec_on_several_agents(foo: MngrProgram) -> None:
    foo("create", "bar", *RUN)
    result = foo("exec", "foo", "bar", "--", "sh", "-c", 'echo "I am $MNGR_AGENT_NAME"; echo err >&2')
    assert result.out == "I am foo\nI am bar\n" and result.err == "== foo\nerr\n== bar\nerr\n"
    rows = foo.run_json(
        "exec",
        "foo",
        "nobody",
        "bar",
        "--",
        "sh",
        "-c",
        'echo "$MNGR_AGENT_NAME"; test $MNGR_AGENT_NAME = foo',
        code=4,
    )
    summary = [(r["name"], r["ok"], r["started"], r["exit_code"], r["stdout"], r["stderr"]) for r in rows["results"]]
    assert summary == [
        ("foo", True, True, 0, "foo\n", ""),
        ("nobody", False, False, None, "", ""),
        ("bar", False, True, 1, "bar\n", ""),
    ]
    assert "there is no agent 'nobody'" in rows["results"][1]["error"]
    foo("exec", "foo", "bar", "--", "false", code=4)
    assert foo("exec", "-", "--", "true", stdin="foo\nbar\n").out == ""


def test_control_characters_are_replaced_in_the_output_of_several_agents(foo: MngrProgram) -> None:
    foo("create", "bar", *RUN)
    assert foo("exec", "foo", "bar", "--", "printf", "\\033[31mred").out == "?[31mred\n?[31mred\n"


def test_exec_works_on_a_stopped_agent(foo: MngrProgram) -> None:
    foo("stop", "foo")
    assert foo("exec", "foo", "--", "echo", "still here").out == "still here\n"


def test_an_interrupt_ends_the_command(foo: MngrProgram) -> None:
    argv = [str(BIN_DIR / "mngr"), "exec", "foo", "--", "sh", "-c", "echo $$; exec sleep 1000"]
    process = subprocess.Popen(
        argv,
        cwd=foo.repo,
        env=foo.env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdout is not None
    pid = int(process.stdout.readline())
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=10)
    assert process.returncode == 130 and b"Traceback" not in err
    wait_for(lambda: not os.path.exists(f"/proc/{pid}"))


def test_exec_needs_a_command_and_an_existing_agent(foo: MngrProgram) -> None:
    assert "after --" in foo("exec", "foo", code=2).err
    assert "there is no agent 'nobody'" in foo("exec", "nobody", "--", "true", code=1).err


def test_an_agent_named_in_three_ways_is_one_target(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--", "cat")
    names = ("foo", "foo@local", mngr.get_agent("foo")["id"])
    assert [row["name"] for row in mngr.run_json("exec", *names, "--", "sh", "-c", "echo x >>f")["results"]] == ["foo"]
    assert (mngr.get_work_dir("foo") / "f").read_text() == "x\n"
    assert len(mngr.run_json("message", *names, "-m", "hi")["results"]) == 1
    for words in (("stop",), ("start",), ("wait", "--state", "RUNNING")):
        assert len(mngr.run_json(*words, *names)["results"]) == 1
    assert len(mngr("events", *names, "--type", "stopped", "--format", "jsonl").out.splitlines()) == 1


def test_ctrl_c_ends_the_command_on_all_agents(mngr: MngrProgram) -> None:
    for name in ("foo", "bar"):
        mngr("create", name, "--", "sleep", "1000")
    argv = [str(BIN_DIR / "mngr"), "exec", "foo", "bar", "--", "sh", "-c", "echo $$ >pid; exec sleep 1000"]
    with PtyTerminal(argv, mngr.repo, mngr.env) as terminal:
        pid_files = [mngr.get_work_dir(name) / "pid" for name in ("foo", "bar")]
        wait_for(lambda: all(pid_file.exists() and pid_file.read_text() for pid_file in pid_files))
        pids = [pid_file.read_text().strip() for pid_file in pid_files]
        terminal.type("\x03")
        assert terminal.wait_for_exit() == 130
    wait_for(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in pids))
