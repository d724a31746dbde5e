"""Tests of `mngr completion` in real shells."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mngr.cli.framework.command_table import COMMANDS
from tests.conftest import MngrProgram


class Terminal:
    """An interactive shell in a pseudo-terminal."""

    def __init__(self, argv: list[str], cwd: Path, env: dict[str, str]) -> None:
        self.seen = ""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(cwd)
            os.execvpe(argv[0], argv, env)

    def type(self, text: str) -> None:
        self.seen = ""
        os.write(self.fd, text.encode())

    def wait_for(self, text: str, timeout: float = 20.0) -> None:
        deadline = time.monotonic() + timeout
        while text not in self.seen:
            remaining = deadline - time.monotonic()
            if remaining <= 0 or not select.select([self.fd], [], [], remaining)[0]:
                pytest.fail(f"waited for {text!r}, saw {self.seen!r}")
            output = os.read(self.fd, 65536).decode("utf-8", "replace")
            self.seen = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self.seen + output)

    def close(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.fd)


@pytest.fixture
def fleet(mngr: MngrProgram) -> MngrProgram:
    """A home with the names of agents, without the cost of real agents."""
    (mngr.home / "names").mkdir(parents=True)
    for name in ("otter", "owl", "wren"):
        os.symlink("a-000000000000", mngr.home / "names" / name)
    settings = mngr.repo / ".mngr/settings.toml"
    settings.parent.mkdir()
    settings.write_text('[templates.night]\nlabel = ["x=y"]\n')
    return mngr


@pytest.fixture(params=["bash", "zsh"])
def terminal(request: pytest.FixtureRequest, fleet: MngrProgram, tmp_path: Path) -> Iterator[Terminal]:
    """A shell that has loaded mngr's completion script."""
    script = tmp_path / "script"
    script.write_text(fleet("completion", request.param).out)
    start = {
        "bash": (["bash", "--norc", "--noprofile", "-i"], f"PS1=; source {script}; echo rea''dy\n"),
        "zsh": (
            ["zsh", "-f", "-i"],
            f"PS1=; autoload -U compinit; compinit -D -u; source {script}; echo rea''dy\n",
        ),
    }
    argv, setup = start[request.param]
    shell = Terminal(argv, fleet.repo, fleet.env)
    shell.type(setup)
    shell.wait_for("ready")
    yield shell
    shell.close()


def test_a_shell_completes_commands_options_names_and_files(terminal: Terminal) -> None:
    for typed, completed in [
        ("mngr destr", "mngr destroy "),
        ("mngr config uns", "mngr config unset "),
        ("mngr create --temp", "mngr create --template "),
        ("mngr create -t ni", "mngr create -t night "),
        ("mngr stop owl ot", "mngr stop owl otter "),
        ("mngr create x --transfer wor", "mngr create x --transfer worktree "),
        ("mngr create --env-file REA", "mngr create --env-file README.md "),
        ("mngr list --state=RUN", "mngr list --state=RUNNING "),
    ]:
        terminal.type(typed + "\t")
        terminal.wait_for(completed)
        terminal.type("\x15")  # clear the line


def test_fish_completes_with_descriptions(fleet: MngrProgram, tmp_path: Path) -> None:
    script = tmp_path / "mngr.fish"
    script.write_text(fleet("completion", "fish").out)

    def complete(line: str) -> list[str]:
        argv = ["fish", "--no-config", "-c", f"source {script}; complete -C '{line}'"]
        return subprocess.run(
            argv, cwd=fleet.repo, env=fleet.env, capture_output=True, text=True, check=True
        ).stdout.splitlines()

    assert complete("mngr destr") == [f"destroy\t{COMMANDS['destroy'][1]}"]
    assert complete("mngr stop o") == ["otter\tan agent", "owl\tan agent"]
    assert complete("mngr create --env-file REA") == ["README.md"]
    assert [line.split("\t")[0] for line in complete("mngr list --state=RUN")] == ["--state=RUNNING"]


def list_completions(mngr: MngrProgram, *words: str, shell: str = "fish") -> list[str]:
    out = mngr("completion", shell, "--index", str(len(words)), "--", "mngr", *words).out
    return [line.split("\t")[0] for line in out.splitlines()]


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["sna"], ["snapshot"]),
        (["snapshot", ""], ["create", "list", "restore", "destroy"]),
        (["--format", "json", "lis"], ["list"]),
        (["rm", "ow"], ["owl"]),
        (["stop", "owl", "otter", ""], ["wren"]),
        (["stop", "--fo"], ["--format"]),
        (["help", "exit"], ["exit-codes"]),
        (["help", "confi"], ["config"]),
        (["config", "set", "project.se"], ["project.setup"]),
        (["config", "unset", "templ"], ["templates.night.label"]),
        (["doctor", "@"], ["@local"]),
        (["doctor", "pl"], ["player"]),
        (["create", "x", "comm"], ["command"]),
        (["create", "x", "--", "ma"], [":files"]),
        (["completion", ""], ["bash", "zsh", "fish"]),
        (["list", "--home", ""], [":files"]),
    ],
)
def test_completion_lists_the_words_that_fit_at_the_cursor(
    fleet: MngrProgram, words: list[str], found: list[str]
) -> None:
    assert list_completions(fleet, *words) == found


@pytest.mark.parametrize(
    ("some", "found", "none"),
    [
        (["snapshot", "r"], ["restore"], ["snapshot", "zzz", ""]),
        (["rename", "o"], ["otter", "owl"], ["rename", "owl", "o"]),
        (["stop", "--qui"], ["--quiet"], ["stop", "-q", "--qui"]),
        (["stop", "ow"], ["owl"], ["zzz", "ow"]),
    ],
)
def test_completion_lists_nothing_where_no_word_fits(
    fleet: MngrProgram, some: list[str], found: list[str], none: list[str]
) -> None:
    assert list_completions(fleet, *some) == found
    assert list_completions(fleet, *none) == []


def test_every_command_can_be_completed(fleet: MngrProgram) -> None:
    assert set(list_completions(fleet, "")) == {name.split()[0] for name in COMMANDS}


def test_trashed_agents_and_snapshots_are_completed_by_name(mngr: MngrProgram) -> None:
    mngr("create", "heron", "--", "sleep", "1000")
    mngr("snapshot", "create", "heron", "monday")
    mngr("destroy", "--force", "heron")
    assert list_completions(mngr, "undestroy", "") == ["heron"]
    assert list_completions(mngr, "snapshot", "restore", "") == ["monday"]
    assert list_completions(mngr, "stop", "") == []


def test_bash_gets_only_the_part_after_the_equals_sign(fleet: MngrProgram) -> None:
    assert list_completions(fleet, "list", "--state", "=", "RUN", shell="bash") == ["RUNNING"]
    assert list_completions(fleet, "list", "--state", "=", shell="bash")[0] == "STARTING"


def test_words_after_the_cursor_are_ignored(fleet: MngrProgram) -> None:
    out = fleet("completion", "bash", "--index", "1", "--", "mngr", "destr", "owl", "--force").out
    assert out == "destroy\n"


def test_completion_works_with_broken_settings_and_without_a_home(fleet: MngrProgram, tmp_path: Path) -> None:
    (fleet.repo / ".mngr/settings.toml").write_text("[broken\n")
    assert list_completions(fleet, "create", "-t", "") == []
    assert list_completions(fleet, "stop", "ow") == ["owl"]
    out = fleet(
        "completion",
        "fish",
        "--index",
        "2",
        "--",
        "mngr",
        "stop",
        "",
        env={"MNGR_HOME": str(tmp_path / "none")},
    ).out
    assert out == ""


def test_an_unknown_shell_is_rejected(mngr: MngrProgram) -> None:
    assert "one of: bash, zsh, fish" in mngr("completion", "tcsh", code=2).err


def test_completion_imports_no_third_party_package(fleet: MngrProgram) -> None:
    code = (
        "import sys; before = set(sys.modules)\n"
        "from mngr.cli.main import main\n"
        "main(['completion', 'fish', '--index', '3', '--', 'mngr', 'create', '-t', ''])\n"
        "new = {name.split('.')[0] for name in set(sys.modules) - before}\n"
        "print(sorted(new - set(sys.stdlib_module_names) - {'mngr'}), file=sys.stderr)\n"
    )
    argv = [sys.executable, "-I", "-c", code]
    result = subprocess.run(argv, cwd=fleet.repo, env=fleet.env, capture_output=True, text=True, check=True)
    assert result.stdout == "night\ta template\n"
    assert result.stderr == "[]\n"
