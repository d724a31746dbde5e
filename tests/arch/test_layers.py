"""Arrows point down only."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = [
    path
    for path in sorted((ROOT / "src/mngr").rglob("*.py"))
    if "sample" not in path.parts  # a project of its own, which lies there to be copied
]


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
        and not {"contract", "e2e", "mechanic", "bridge"}
        & set(path.parts)  # these stand alone, beside the program
        and path.name not in ("probe.py", "stub.py", "stubbing.py")  # run in the project's own Python
    }
    assert starters <= {"shell.py", "onhost/player.py", "onhost/acts.py"}


def test_what_runs_on_a_host_alone_needs_nothing_of_mngr() -> None:
    for path in (ROOT / "src/mngr/onhost").glob("*.py"):
        if path.name != "__init__.py":
            allowed = (
                {"mngr"} if "if TYPE_CHECKING:" in path.read_text() else set()
            )  # a name for mypy is no need
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
        if "cli" in path.parts or "onhost" in path.parts:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print":
                printers.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert printers == []
