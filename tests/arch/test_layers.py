"""Arrows point down only."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

from tests.support.paths import ROOT

SOURCES = [
    path
    for path in sorted((ROOT / "src/mngr").rglob("*.py"))
    if "sample" not in path.parts  # a project of its own, which lies there to be copied
]
# Programs that mngr writes to a host as single files.
SENT_TO_HOSTS = (
    "agents/sandbox/network_proxy.py",
    "kinds/aider/aider_wrapper.py",
    "kinds/player/steps.py",
    "kinds/player/faults.py",
    "kinds/player/player.py",
)


def test_the_layers_hold() -> None:
    argv = [str(Path(sys.executable).parent / "lint-imports"), "--no-cache"]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
    return found


def test_processes_are_started_in_one_place() -> None:
    starters = {
        str(path.relative_to(ROOT / "src/mngr"))
        for path in SOURCES
        if imports(path) & {"subprocess", "pty", "multiprocessing", "asyncio"}
        and not {"contract", "e2e", "mechanic", "bridge"} & set(path.parts)  # these stand alone, beside the program
        and path.name not in ("pytest_probe.py", "stub.py", "stub_plugin.py")  # run in the project's own Python
    }
    in_bridges = {  # they run in the Python that has an engine's library, or on its hosts
        "providers/modal/bridge.py",
        "providers/modal/reachability.py",
        "providers/modal/sandbox_command.py",
        "providers/ray/bridge.py",
        "providers/ray/host_actor.py",
        "providers/ray/work_backup.py",
    }
    assert starters <= {"base/shell.py", "kinds/player/player.py", "kinds/player/steps.py"} | in_bridges


def test_what_runs_on_a_host_alone_needs_nothing_of_mngr() -> None:
    for name in SENT_TO_HOSTS:
        path = ROOT / "src/mngr" / name
        allowed = {"mngr"} if "if TYPE_CHECKING:" in path.read_text() else set()  # a name for mypy is no need
        outside = {name.split(".")[0] for name in imports(path)} - set(sys.stdlib_module_names)
        assert outside <= allowed, path
        alone = [
            sys.executable,
            "-I",
            "-S",
            "-c",
            f"exec(compile(open({str(path)!r}).read(), 'x', 'exec'), {{'__name__': 'x', '__file__': {str(path)!r}}})",
        ]
        assert subprocess.run(alone, capture_output=True, check=False).returncode == 0, path


def test_operations_do_not_print() -> None:
    printers = []
    for path in SOURCES:
        if "cli" in path.parts or str(path.relative_to(ROOT / "src/mngr")) in SENT_TO_HOSTS:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print":
                printers.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert printers == []
