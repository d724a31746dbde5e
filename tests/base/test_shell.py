"""Running processes."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mngr.base import shell
from mngr.base.errors import MngrError, TimedOut
from tests.conftest import IS_FULL_SCALE, wait_for

WORDS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))


@pytest.fixture(scope="module")
def aside(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory in which a badly quoted word can do no harm."""
    return tmp_path_factory.mktemp("aside")


@settings(max_examples=300 if IS_FULL_SCALE else 40)
@given(words=st.lists(WORDS, max_size=5))
def test_quoted_words_pass_through_a_real_shell_unchanged(aside: Path, words: list[str]) -> None:
    line = shell.join(["printf", "%s\\0", *words]) if words else "true"
    out = shell.run(["sh", "-c", f"cd {aside} && {line}"]).out
    assert out == b"".join(word.encode() + b"\0" for word in words)


def test_words_without_special_characters_are_not_quoted() -> None:
    assert shell.join(["git", "-C", "/a/b", "x=1"]) == "git -C /a/b x=1"
    assert shell.quote("") == "''"


def test_large_input_and_output_do_not_deadlock() -> None:
    data = os.urandom(3_000_000)
    result = shell.run(["sh", "-c", "tee /dev/stderr"], stdin=data)
    assert (result.code, result.out == data, result.err == data) == (0, True, True)


def test_a_command_that_ignores_its_input_succeeds() -> None:
    assert shell.run(["sh", "-c", "exec 0<&-; echo done"], stdin=b"x" * 1_000_000).text == "done"


def test_a_command_without_input_reads_end_of_file() -> None:
    assert shell.run(["cat"]).out == b""


@pytest.mark.parametrize("code", [0, 1, 3, 127, 255])
def test_the_exit_code_of_the_command_is_returned(code: int) -> None:
    assert shell.run(["sh", "-c", f"exit {code}"]).code == code


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_command_ended_by_a_signal_returns_128_plus_its_number(number: signal.Signals) -> None:
    assert shell.run(["sh", "-c", f"kill -{int(number)} $$"]).code == 128 + number


def test_a_timeout_kills_the_command(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    started = time.monotonic()
    with pytest.raises(TimedOut, match=r"sh did not answer within 0\.3s"):
        shell.run(["sh", "-c", f"echo $$ >{pid_file}; exec sleep 100"], timeout=0.3)
    assert time.monotonic() - started < 10
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid_file.read_text()), 0)


@pytest.mark.parametrize("stream", [1, 2])
def test_a_command_that_writes_too_much_is_killed(tmp_path: Path, stream: int) -> None:
    pid_file = tmp_path / "pid"
    with pytest.raises(MngrError, match="sh wrote more than 3 MB of output, so mngr ended it"):
        shell.run(["sh", "-c", f"echo $$ >{pid_file}; exec cat /dev/zero >&{stream}"], max_bytes=3 << 20)
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid_file.read_text()), 0)
    assert len(shell.run(["head", "-c", str(3 << 20), "/dev/zero"], max_bytes=3 << 20).out) == 3 << 20


def test_a_missing_program_error_names_it_and_hints_at_doctor() -> None:
    with pytest.raises(shell.ProgramMissing) as caught:
        shell.run(["no-such-program-at-all"])
    assert caught.value.message == "no-such-program-at-all is not installed"
    assert "mngr doctor" in (caught.value.hint or "")
    with pytest.raises(shell.ProgramMissing):
        shell.start_process(["no-such-program-at-all"])


def test_a_file_that_is_not_executable_raises_mngr_error(tmp_path: Path) -> None:
    with pytest.raises(MngrError, match="could not be started: Permission denied"):
        shell.run([str(tmp_path)])


def test_a_too_long_command_line_fails_with_a_hint() -> None:
    with pytest.raises(MngrError) as caught:
        shell.run(["true", "x" * 3_000_000])
    assert caught.value.hint == "shorten the command line: it is too long for this system"


def test_no_file_descriptor_is_leaked() -> None:
    before = len(os.listdir("/proc/self/fd"))
    shell.run(["cat"], stdin=b"x")
    with pytest.raises(shell.ProgramMissing):
        shell.run(["no-such-program-at-all"], stdin=b"x")
    with pytest.raises(TimedOut):
        shell.run(["sleep", "100"], stdin=b"x", timeout=0.05)
    assert len(os.listdir("/proc/self/fd")) == before


def test_sigpipe_is_not_ignored_in_child_processes() -> None:
    assert shell.run(["sh", "-c", "yes | head -n 1"]).err == b""


def test_env_replaces_the_whole_environment() -> None:
    assert shell.run(["/usr/bin/env"], env={"A": "b c"}).text == "A=b c"


def test_a_result_gives_its_text_and_last_error_line() -> None:
    result = shell.run(["sh", "-c", "echo out; printf 'one\\ntwo\\n' >&2; exit 4"])
    assert (result.text, result.error_line) == ("out", "two")
    assert shell.run(["sh", "-c", "exit 4"]).error_line == "exit code 4"


def test_start_process_streams_and_wait_process_returns_the_exit_code() -> None:
    process = shell.start_process(["sh", "-c", "cat; exit 7"], stdin=shell.PIPE, stdout=shell.PIPE)
    assert process.communicate(b"hello")[0] == b"hello"
    assert shell.wait_process(process) == 7


def test_a_timeout_also_kills_child_processes(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    with pytest.raises(TimedOut):
        shell.run(["sh", "-c", f"sleep 1000 & echo $! >{pid_file}; wait"], timeout=0.5)
    process = Path(f"/proc/{pid_file.read_text().strip()}/stat")

    def is_dead() -> bool:
        try:
            return process.read_text().rpartition(")")[2].split()[0] == "Z"
        except (FileNotFoundError, ProcessLookupError):
            return True

    wait_for(is_dead)


def test_abbreviate_hides_a_password_in_a_url() -> None:
    shown = shell.abbreviate(["git", "clone", "https://ann:hush@example.invalid/x.git"])
    assert "hush" not in shown and "example.invalid/x.git" in shown
