"""Limits what the frequent commands import, because start-up dominates their time."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

from mngr.cli.framework.command_table import COMMANDS, get_module_name
from tests.conftest import MngrProgram
from tests.support.paths import ROOT

# `list` needs json (and with it re) to read records, and select and threading to ask hosts.
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
names = set(sys.modules) - before
import json
print(json.dumps([code, sorted(names)]), file=sys.stderr)
"""
E2E = "from mngr.e2e import CommandTimeout, E2eSession, E2eResult, Tty, expect"


def imported_modules(mngr: MngrProgram, *words: str) -> set[str]:
    """Return the modules that a command imports on top of those that python itself imports."""
    argv = [sys.executable, "-c", PROGRAM, *words]
    completed = subprocess.run(argv, cwd=mngr.repo, env=mngr.env, capture_output=True, text=True, check=True)
    code, names = json.loads(completed.stderr.splitlines()[-1])
    assert code == 0, completed.stderr
    return set(names)


def imported(mngr: MngrProgram, *words: str) -> set[str]:
    """Return the packages that a command imports on top of those that python itself imports."""
    return {name.split(".")[0] for name in imported_modules(mngr, *words)}


def test_help_imports_only_mngr(mngr: MngrProgram) -> None:
    assert imported(mngr, "--help") == {"__future__", "mngr"}


def test_list_imports_only_what_it_needs(mngr: MngrProgram) -> None:
    assert imported(mngr, "list") <= ALLOWED
    mngr("create", "foo", "--", "sleep", "1000")
    assert imported(mngr, "list") <= ALLOWED
    assert imported(mngr, "list", "--format", "json") <= ALLOWED


def test_frequent_commands_import_no_slow_modules(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--", "cat")
    slow_imports = {
        words[0]: imported(mngr, *words) & DEAR
        for words in (
            ["create", "bar", "--", "sleep", "1000"],
            ["message", "foo", "-m", "hi"],
            ["stop", "bar"],
            ["label", "foo", "a=b"],
            ["destroy", "bar"],
        )
    }
    # The record in the trash is written by `json_structs`, which reads annotations with the help of `typing`.
    assert slow_imports == {"create": set(), "message": set(), "stop": set(), "label": set(), "destroy": {"typing"}}


def test_commands_import_no_third_party_package_without_plugins(mngr: MngrProgram) -> None:
    for words in (
        ["list"],
        ["doctor"],
        ["config", "get", "stop.grace"],
        ["help", "states"],
        ["completion", "bash"],
    ):
        third_party = imported(mngr, *words) - set(sys.stdlib_module_names) - {"mngr"}
        assert third_party == set(), words


def test_commands_about_runs_import_no_templates_unless_they_write_pages(mngr: MngrProgram) -> None:
    for words in (["list"], ["tmr", "list"], ["tmr", "run", "--help"], ["web", "--help"]):
        assert "jinja2" not in imported(mngr, *words), words


# Every command may load these: completion imports each command, `list` and `create` each kind and provider.
ON_THE_PATH = ("cli", "base", "host", "kinds", "providers", "plugins", "e2e", "api.py", "__init__.py")
# Single files that mngr sends to a host or into a clean room.
SENT = (
    "observe_pytest.py clean_room_program.py resource_limits.py workspace_protection.py lfs_files.py protect_setup_files.py sandbox_check.py tracer.py "
    "replaced_files.py imported_files.py trial_driver.py outcome_path.py recorded_calls.py similar_calls.py similar_calls_report.py similar_values.py exact_equality.py selected_tests.py collected_tests.py suite_lines.py "
    "stub_program.py stub_plugin.py network_proxy.py visible_files.py"
).split()


def uses_start_up_tricks(path: Path) -> bool:
    """Return True when a module imports inside functions, or hides the imports of its types."""
    text = path.read_text()
    if "\nTYPE_CHECKING = False\n" in text:
        return True
    functions = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)]
    inner_nodes = [node for function in functions for node in ast.walk(function)]
    return any(isinstance(node, ast.ImportFrom) and (node.module or "").startswith("mngr") for node in inner_nodes)


def test_start_up_tricks_are_used_only_on_the_path_of_frequent_commands(mngr: MngrProgram) -> None:
    loaded: set[str] = set()
    for words in (
        ["create", "foo", "--", "cat"],
        ["create", "bar", "player", "-m", "hello"],
        ["list", "--git"],
        ["message", "bar", "-m", "hi", "--wait"],
        ["exec", "foo", "--", "true"],
        ["label", "foo", "a=b"],
        ["stop", "foo"],
        ["start", "foo"],
        ["destroy", "--force", "foo"],
    ):
        loaded |= imported_modules(mngr, *words)
    program = f"import importlib, json, sys; [importlib.import_module(name) for name in {sorted(map(get_module_name, COMMANDS))}]; print(json.dumps(list(sys.modules)))"
    completed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded |= set(json.loads(completed.stdout))  # completion imports the command that it completes
    root = ROOT / "src/mngr"
    elsewhere = [
        path.relative_to(root)
        for path in sorted(root.rglob("*.py"))
        if path.relative_to(root).parts[0] not in ON_THE_PATH
        and "sample" not in path.parts
        and path.name not in SENT
        and "mngr." + ".".join(path.relative_to(root).with_suffix("").parts) not in loaded
    ]
    assert len(elsewhere) > 200
    assert [str(path) for path in elsewhere if uses_start_up_tricks(root / path)] == []


def cpu_seconds(program: str) -> float:
    """Return the CPU seconds of a Python program, the best of five runs because the machine may be busy."""

    def measure_once() -> float:
        with subprocess.Popen([sys.executable, "-c", program]) as process:
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0
        return usage.ru_utime + usage.ru_stime

    return min(measure_once() for _ in range(5))


def test_the_e2e_package_starts_quickly_and_imports_nothing_else_of_mngr() -> None:
    cpu_seconds(E2E)  # The first run compiles it.
    empty_seconds = cpu_seconds("")
    assert cpu_seconds(E2E) - empty_seconds < max(0.1, 6 * empty_seconds)  # Both slow down on a busy machine.
    program = f"import sys; {E2E}; print(*(name for name in sys.modules if name.partition('.')[0] == 'mngr'))"
    output = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert "mngr.e2e.session" in output
    assert [name for name in output.split() if name != "mngr" and not name.startswith("mngr.e2e")] == []
