"""Checks of exec: work dir, environment, streams and exit code."""

from __future__ import annotations

import os
import random
import signal
import string

from mngr.testkit.contract.client import SLEEP_COMMAND, Client, ContractChecks, run_concurrently
from mngr.testkit.contract.mngr_program import BackgroundProgram, wait_for

# Text that a shell, a terminal or a protocol on the way could misinterpret.
ODD_ARGUMENTS = (
    "",
    " ",
    "a b",
    'it\'s "so"',
    "$HOME",
    "`id`",
    "$(id)",
    "~",
    "-n",
    "--",
    "!!",
    "&&",
    ">x",
    "%s%d",
    "{a,b}",
    "\\n\\0101",
    "new\nline",
    "end\n",
    "tab\t",
    "return\r",
    "naïve 日本語 🙂",
    "\x01\x7f",
    "x" * 5000,
    *(f"{mark}1{mark}{mark}z{mark}" for mark in string.punctuation),
)


class ExecContract(ContractChecks):
    """Checks of exec."""

    def test_exec_keeps_streams_bytes_and_arguments(self, client: Client) -> None:
        client.create("foo", "--env", "GIVEN=a b", *SLEEP_COMMAND)
        result = client(
            "exec", "foo", "--", "sh", "-c", 'pwd -P; echo "$GIVEN|$SECRET"; echo oops >&2', env={"SECRET": "x"}
        )
        assert (result.out, result.err) == (f"{client.run_script('foo', 'pwd -P')}a b|\n", "oops\n")
        data = bytes(range(256)) * 400
        completed = client.run_bytes("exec", "foo", "--", "cat", data=data)
        assert (completed.returncode, completed.stdout, completed.stderr) == (0, data, b"")
        completed = client.run_bytes("exec", "foo", "--", "sh", "-c", "cat >&2", data=data)
        assert (completed.returncode, completed.stdout, completed.stderr) == (0, b"", data)
        assert client.run_bytes("exec", "foo", "--", "cat").stdout == b""
        client("stop", "foo")
        assert client("exec", "foo", "--", "echo", "still here").out == "still here\n"
        data = random.Random(3).randbytes(10_000_000)
        completed = client.run_bytes("exec", "foo", "--", "cat", data=data)
        assert (completed.returncode, len(completed.stdout), completed.stdout == data) == (0, len(data), True)
        script = 'for word; do printf "%s\\0" "$word"; done'
        completed = client.run_bytes("exec", "foo", "--", "sh", "-c", script, "sh", *ODD_ARGUMENTS)
        assert completed.stdout.decode().split("\0")[:-1] == list(ODD_ARGUMENTS)
        raw = os.fsdecode(b"caf\xe9")
        assert client.run_bytes("exec", "foo", "--", "printf", "%s", raw).stdout == b"caf\xe9"

    def test_exec_returns_the_exit_code_of_the_command(self, client: Client) -> None:
        client.create("foo", *SLEEP_COMMAND)
        lines = {
            "exit 0": 0,
            "exit 1": 1,
            "exit 6": 6,
            "exit 125": 125,
            "exit 127": 127,
            "exit 255": 255,
            "kill -TERM $$": 143,
            "kill -9 $$": 137,
        }
        for line, code in lines.items():
            result = client("exec", "foo", "--", "sh", "-c", line, code=code)
            assert (result.out, result.err) == ("", "")
        row = client.get_only_row("exec", "foo", "--", "sh", "-c", "echo out; echo err >&2; exit 255", code=255)
        assert (row["started"], row["exit_code"], row["ok"]) == (True, 255, False)
        assert (row["stdout"], row["stderr"]) == ("out\n", "err\n")
        for word in ("no-such-program", "./nowhere", "src", "cd"):
            result = client("exec", "foo", "--", word, code=1)
            assert result.err.startswith(
                f"Error: mngr did not run the command in foo: {word}: command not found\nHint: "
            )
        row = client.get_only_row("exec", "foo", "--", "no-such-program", code=1)
        assert (row["started"], row["exit_code"], row["ok"]) == (False, None, False)
        client.run_script("foo", 'mv "$MNGR_WORK_DIR" "$MNGR_WORK_DIR.moved"')
        assert "work dir" in client("exec", "foo", "--", "true", code=1).err

    def test_several_targets_and_many_commands_at_once(self, client: Client) -> None:
        client.create("foo", *SLEEP_COMMAND)
        client.create("bar", *SLEEP_COMMAND)
        result = client("exec", "foo", "bar", "--", "sh", "-c", 'echo "I am $MNGR_AGENT_NAME"; echo err >&2')
        assert (result.out, result.err) == ("I am foo\nI am bar\n", "== foo\nerr\n== bar\nerr\n")
        script = 'echo "$MNGR_AGENT_NAME"; test "$MNGR_AGENT_NAME" = foo'
        rows = client.run_json("exec", "foo", "nobody", "bar", "--", "sh", "-c", script, code=4)["results"]
        assert [(r["name"], r["ok"], r["started"], r["exit_code"], r["stdout"]) for r in rows] == [
            ("foo", True, True, 0, "foo\n"),
            ("nobody", False, False, None, ""),
            ("bar", False, True, 1, "bar\n"),
        ]
        count = 8
        calls = [(client, ("exec", "foo", "--", "sh", "-c", f"echo {n}; sleep 0.2; exit {n}")) for n in range(count)]
        assert [(completed.returncode, completed.stdout) for completed in run_concurrently(*calls)] == [
            (n, f"{n}\n".encode()) for n in range(count)
        ]

    def test_an_interrupt_or_a_closed_pipe_ends_the_command(self, client: Client) -> None:
        client.create("foo", *SLEEP_COMMAND)
        with BackgroundProgram(client, "exec", "foo", "--", "sh", "-c", "echo $$; exec sleep 1000") as process:
            pid = int(process.read_line())
            os.killpg(process.process.pid, signal.SIGINT)
            result = process.wait_for_end()
        assert result.code == 130 and "Traceback" not in result.err
        alive = f"kill -0 {pid} 2>/dev/null && echo alive || :"
        wait_for(lambda: client.run_script("foo", alive) == "")
        completed = client.run_bytes("exec", "foo", "--", "head", "-c", "3", data=b"x" * 3_000_000)
        assert (completed.returncode, completed.stdout) == (0, b"xxx")
        with BackgroundProgram(client, "exec", "foo", "--", "yes") as process:
            assert process.read_line() == "y"
            assert process.process.stdout is not None
            process.process.stdout.close()
            assert process.process.wait(20) != 3  # any code but 3, which means an internal error of mngr
