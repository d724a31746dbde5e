"""Tests that a command in a sandbox gets pipes and a terminal of its own, never the descriptors of the user."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from mngr.testkit.contract.pty_terminal import PtyTerminal
from tests.conftest import BIN_DIR, MngrProgram

SECRET = b"the user's file\n"


@pytest.fixture
def foo(mngr: MngrProgram) -> MngrProgram:
    """A sandboxed agent."""
    mngr("create", "foo", "--sandbox", "--", "sleep", "1000")
    return mngr


def exec_argv(*words: str) -> list[str]:
    return [str(BIN_DIR / "mngr"), "exec", "foo", "--", *words]


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_file_of_the_user_cannot_be_reopened(foo: MngrProgram, tmp_path: Path, number: int) -> None:
    path = tmp_path / "file"
    path.write_bytes(SECRET)
    line = (
        f"kind=$(readlink /proc/$$/fd/{number}); echo $kind >kind; echo mark | dd of=/proc/$$/fd/{number} conv=notrunc"
    )
    with path.open("rb" if number == 0 else "ab") as file:
        streams = {name: file if number == index else subprocess.DEVNULL for index, name in enumerate(("stdin", "stdout", "stderr"))}  # fmt: skip
        subprocess.run(exec_argv("sh", "-c", line), cwd=foo.repo, env=foo.env, **streams, check=False, timeout=60)  # type: ignore[call-overload]
    work_dir = foo.get_work_dir("foo")
    assert (work_dir / "kind").read_text().startswith("pipe:")
    assert path.read_bytes().startswith(SECRET)  # What the command prints is added at the end.


def test_streams_and_the_exit_code_pass_unchanged(foo: MngrProgram) -> None:
    data = bytes(range(256)) * 2000
    argv = exec_argv("sh", "-c", "cat; echo oops >&2; exit 7")
    result = subprocess.run(argv, cwd=foo.repo, env=foo.env, input=data, capture_output=True, check=False, timeout=60)
    assert (result.returncode, result.stdout, result.stderr) == (7, data, b"oops\n")


def test_a_command_ends_when_nobody_reads_its_output(foo: MngrProgram) -> None:
    with subprocess.Popen(exec_argv("yes"), cwd=foo.repo, env=foo.env, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"y\n"
        process.stdout.close()
        assert process.wait(timeout=30) == 141


def test_a_command_ends_although_its_input_stays_open(foo: MngrProgram) -> None:
    with subprocess.Popen(exec_argv("true"), cwd=foo.repo, env=foo.env, stdin=subprocess.PIPE) as process:
        assert process.wait(timeout=30) == 0


def test_a_command_at_a_terminal_gets_its_own_terminal(foo: MngrProgram) -> None:
    # `sed` replaces the shell: a shell that is about to start a program may lose the interrupt.
    argv = exec_argv("sh", "-c", "stat -Lc %t,%T /proc/self/fd/0; stty size; exec sed -u s/^/got-/")
    with PtyTerminal(argv, foo.repo, foo.env, rows=31, columns=91) as terminal:
        user_device = os.stat(f"/proc/{terminal.process.pid}/fd/0").st_rdev
        device = terminal.wait_for_text("31 91").split()[0]
        assert device.startswith("88,") and device != f"{os.major(user_device):x},{os.minor(user_device):x}"
        terminal.type("hello\r")
        terminal.wait_for_text("got-hello")
        terminal.type("\x03")
        assert terminal.wait_for_exit() == 130
