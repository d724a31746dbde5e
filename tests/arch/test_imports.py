"""What the commands that people wait for may import: start-up is most of what they cost."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from tests.conftest import Mngr

# What `list` needs: json (and with it re) to read records, select and threading to ask hosts.
ALLOWED = {
    "__future__", "_collections", "_functools", "_json", "_operator", "_sre", "_weakrefset", "collections", "copyreg", "enum", "errno", "fcntl",
    "functools", "importlib", "itertools", "json", "keyword", "mngr", "operator", "re", "reprlib", "select", "threading",
    "types", "warnings",
}  # fmt: skip
DEAR = {
    "argparse", "asyncio", "concurrent", "dataclasses", "datetime", "hashlib", "inspect", "logging", "pathlib", "pluggy",
    "shlex", "shutil", "subprocess", "tempfile", "tomlkit", "tomllib", "typing", "urllib",
}  # fmt: skip
PROGRAM = """
import sys
before = set(sys.modules)
from mngr.cli.main import main
code = main(sys.argv[1:])
names = {name.split(".")[0] for name in set(sys.modules) - before}
import json
print(json.dumps([code, sorted(names)]), file=sys.stderr)
"""
E2E = "from mngr.e2e import CommandTimeout, E2eSession, Result, Tty, expect"


def imported(mngr: Mngr, *words: str) -> set[str]:
    """The packages that a command imports on top of what python itself does."""
    argv = [sys.executable, "-c", PROGRAM, *words]
    ran = subprocess.run(argv, cwd=mngr.repo, env=mngr.env, capture_output=True, text=True, check=True)
    code, names = json.loads(ran.stderr.splitlines()[-1])
    assert code == 0, ran.stderr
    return set(names)


def test_help_imports_nothing_but_itself(mngr: Mngr) -> None:
    assert imported(mngr, "--help") == {"__future__", "mngr"}


def test_list_imports_only_what_it_needs(mngr: Mngr) -> None:
    assert imported(mngr, "list") <= ALLOWED
    mngr("create", "foo", "--", "sleep", "1000")
    assert imported(mngr, "list") <= ALLOWED
    assert imported(mngr, "list", "--format", "json") <= ALLOWED


def test_no_command_that_people_wait_for_imports_what_is_dear(mngr: Mngr) -> None:
    mngr("create", "foo", "--", "cat")
    found = {
        words[0]: imported(mngr, *words) & DEAR
        for words in (
            ["create", "bar", "--", "sleep", "1000"],
            ["message", "foo", "-m", "hi"],
            ["stop", "bar"],
            ["label", "foo", "a=b"],
        )
    }
    assert found == {"create": set(), "message": set(), "stop": set(), "label": set()}


def test_with_no_plugin_no_command_imports_a_third_party_package(mngr: Mngr) -> None:
    for words in (
        ["list"],
        ["doctor"],
        ["config", "get", "stop.grace"],
        ["help", "states"],
        ["completion", "bash"],
    ):
        strange = imported(mngr, *words) - set(sys.stdlib_module_names) - {"mngr"}
        assert strange == set(), words


def cpu_seconds(program: str) -> float:
    """What Python takes of the processor for this, at best of several times: others may be at work."""

    def once() -> float:
        with subprocess.Popen([sys.executable, "-c", program]) as process:
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0
        return usage.ru_utime + usage.ru_stime

    return min(once() for _ in range(5))


def test_the_test_framework_starts_quickly_and_alone() -> None:
    cpu_seconds(E2E)  # from now on it is compiled
    assert cpu_seconds(E2E) - cpu_seconds("") < 0.1
    ask = f"import sys; {E2E}; print(*(name for name in sys.modules if name.partition('.')[0] == 'mngr'))"
    said = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True).stdout
    assert "mngr.e2e.session" in said
    assert [name for name in said.split() if name != "mngr" and not name.startswith("mngr.e2e")] == []
