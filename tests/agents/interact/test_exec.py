"""`mngr exec`: the agent's place and environment, the caller's streams, the command's exit code."""

from __future__ import annotations

import os
import signal
import subprocess

import pytest

from mngr.testkit.contract.terminal import PtyTerminal
from tests.conftest import BIN_DIR, MngrProgram, wait_for

RUN = ("--", "sleep", "1000")


@pytest.fixture
def foo(mngr: MngrProgram) -> MngrProgram:
    mngr("create", "foo", "--env", "GIVEN=a b", *RUN)
    return mngr


def raw(mngr: MngrProgram, *words: str, data: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    argv = [str(BIN_DIR / "mngr"), "exec", *words]
    return subprocess.run(argv, cwd=mngr.repo, env=mngr.env, input=data, capture_output=True, check=False)


def test_place_environment_and_both_streams(foo: MngrProgram) -> None:
    ran = foo(
        "exec",
        "foo",
        "--",
        "sh",
        "-c",
        'pwd; echo "$GIVEN|$MNGR_AGENT_NAME|$SECRET"; echo oops >&2',
        env={"SECRET": "x"},
    )
    assert ran.out == f"{foo.get_work_dir('foo')}\na b|foo|\n" and ran.err == "oops\n"
    assert foo("exec", "foo", "--", "git", "rev-parse", "--abbrev-ref", "HEAD").out == "mngr/foo\n"
    assert foo("exec", foo.get_agent("foo")["id"], "--", "printf", "%s|", "a b", "$HOME", "").out == "a b|$HOME||"


def test_stdin_and_binary_output_pass_unchanged(foo: MngrProgram) -> None:
    data = bytes(range(256)) * 1000
    done = raw(foo, "foo", "--", "cat", data=data)
    assert (done.returncode, done.stdout, done.stderr) == (0, data, b"")


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
def test_the_exit_code_is_the_commands(foo: MngrProgram, line: str, code: int) -> None:
    foo("exec", "foo", "--", "sh", "-c", line, code=code)
    (row,) = foo.run_json("exec", "foo", "--", "sh", "-c", line, code=code)["results"]
    assert (row["started"], row["exit_code"], row["ok"]) == (True, code, code == 0)
    assert not list(foo.get_agent_dir("foo").glob("exec-*"))


@pytest.mark.parametrize("word", ["no-such-program", "./nowhere", "src", "cd", ""])
def test_a_command_that_is_none_is_exit_1_and_runs_nothing(foo: MngrProgram, word: str) -> None:
    ran = foo("exec", "foo", "--", word, code=1)
    assert ran.err == f"Error: foo: {word}: command not found\nHint: nothing was run\n"
    (row,) = foo.run_json("exec", "foo", "--", word, code=1)["results"]
    assert (row["started"], row["exit_code"], row["ok"]) == (False, None, False)
    assert not list(foo.get_agent_dir("foo").glob("exec-*"))


def test_a_work_dir_that_is_gone_is_said(foo: MngrProgram) -> None:
    work = foo.get_work_dir("foo")
    os.rename(work, work.with_name("moved"))
    assert f"its work dir {work} is gone" in foo("exec", "foo", "--", "true", code=1).err


def test_several_targets(foo: MngrProgram) -> None:
    foo("create", "bar", *RUN)
    ran = foo("exec", "foo", "bar", "--", "sh", "-c", 'echo "I am $MNGR_AGENT_NAME"; echo err >&2')
    assert ran.out == "I am foo\nI am bar\n" and ran.err == "== foo\nerr\n== bar\nerr\n"
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
    seen = [(r["name"], r["ok"], r["started"], r["exit_code"], r["stdout"], r["stderr"]) for r in rows["results"]]
    assert seen == [
        ("foo", True, True, 0, "foo\n", ""),
        ("nobody", False, False, None, "", ""),
        ("bar", False, True, 1, "bar\n", ""),
    ]
    assert "there is no agent 'nobody'" in rows["results"][1]["error"]
    foo("exec", "foo", "bar", "--", "false", code=4)
    assert foo("exec", "-", "--", "true", stdin="foo\nbar\n").out == ""


def test_what_agents_write_is_tamed_when_it_is_mixed(foo: MngrProgram) -> None:
    foo("create", "bar", *RUN)
    assert foo("exec", "foo", "bar", "--", "printf", "\\033[31mred").out == "?[31mred\n?[31mred\n"


def test_it_also_works_on_agents_that_do_not_run(foo: MngrProgram) -> None:
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


def test_usage(foo: MngrProgram) -> None:
    assert "after --" in foo("exec", "foo", code=2).err
    assert "there is no agent 'nobody'" in foo("exec", "nobody", "--", "true", code=1).err


def test_who_is_named_in_three_ways_is_one(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--", "cat")
    names = ("foo", "foo@local", mngr.get_agent("foo")["id"])
    assert [row["name"] for row in mngr.run_json("exec", *names, "--", "sh", "-c", "echo x >>f")["results"]] == ["foo"]
    assert (mngr.get_work_dir("foo") / "f").read_text() == "x\n"
    assert len(mngr.run_json("message", *names, "-m", "hi")["results"]) == 1
    for words in (("stop",), ("start",), ("wait", "--state", "RUNNING")):
        assert len(mngr.run_json(*words, *names)["results"]) == 1
    assert len(mngr("events", *names, "--type", "stopped", "--format", "jsonl").out.splitlines()) == 1


def test_who_interrupts_it_ends_the_command_on_all_of_them(mngr: MngrProgram) -> None:
    for name in ("foo", "bar"):
        mngr("create", name, "--", "sleep", "1000")
    argv = [str(BIN_DIR / "mngr"), "exec", "foo", "bar", "--", "sh", "-c", "echo $$ >pid; exec sleep 1000"]
    with PtyTerminal(argv, mngr.repo, mngr.env) as terminal:
        notes = [mngr.get_work_dir(name) / "pid" for name in ("foo", "bar")]
        wait_for(lambda: all(note.exists() and note.read_text() for note in notes))
        pids = [note.read_text().strip() for note in notes]
        terminal.type("\x03")
        assert terminal.wait_for_exit() == 130
    wait_for(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in pids))
