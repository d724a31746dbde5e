"""Dependencies between packages point down only."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

from tests.support.paths import ROOT

SOURCES = [
    path
    for path in sorted((ROOT / "src/mngr").rglob("*.py"))
    if "sample" not in path.parts  # the sample project is only copied, never imported
]
# Programs that mngr writes to a host as single files.
SENT_TO_HOSTS = (
    "agents/sandbox/network_proxy.py",
    "kinds/aider/aider_wrapper.py",
    "kinds/player/work_and_fault_steps.py",
    "kinds/player/sabotage.py",
    "kinds/player/player.py",
)


def test_imports_respect_the_layers() -> None:
    argv = [str(Path(sys.executable).parent / "lint-imports"), "--no-cache"]
    completed = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    assert completed.returncode == 0, completed.stdout


def list_imports(path: Path) -> set[str]:
    modules = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            modules.add(node.module)
    return modules


def test_only_the_shell_module_starts_processes() -> None:
    starters = {
        str(path.relative_to(ROOT / "src/mngr"))
        for path in SOURCES
        if list_imports(path) & {"subprocess", "pty", "multiprocessing", "asyncio"}
        and not {"contract", "e2e", "mechanic", "bridge"} & set(path.parts)  # these are separate from the program
        and path.name
        not in (  # run in the project's own Python
            "observe_pytest.py",
            "recorded_calls.py",
            "similar_calls.py",
            "stub_program.py",
            "stub_plugin.py",
        )
    }
    in_bridges = {  # these run in the Python with an engine's library, or on its hosts
        "providers/modal/modal_calls.py",
        "providers/modal/check_control_plane.py",
        "providers/modal/run_in_sandbox.py",
        "providers/ray/ray_calls.py",
        "providers/ray/run_on_actor.py",
        "providers/ray/actor_command.py",
        "providers/ray/host_actor.py",
        "providers/ray/node_tasks.py",
        "providers/ray/work_backup.py",
    }
    of_server = {name for name in starters if name.startswith("web/live/")}  # these use asyncio to answer requests
    assert not [name for name in of_server if "subprocess" in (ROOT / "src/mngr" / name).read_text()]
    programs = {"base/shell.py", "kinds/player/player.py", "kinds/player/work_and_fault_steps.py"}
    assert starters - of_server <= programs | in_bridges


def test_programs_sent_to_hosts_import_nothing_of_mngr() -> None:
    for name in SENT_TO_HOSTS:
        path = ROOT / "src/mngr" / name
        allowed = {"mngr"} if "if TYPE_CHECKING:" in path.read_text() else set()  # an import for mypy is never executed
        outside = {name.split(".")[0] for name in list_imports(path)} - set(sys.stdlib_module_names)
        assert outside <= allowed, path
        argv = [
            sys.executable,
            "-I",
            "-S",
            "-c",
            f"exec(compile(open({str(path)!r}).read(), 'x', 'exec'), {{'__name__': 'x', '__file__': {str(path)!r}}})",
        ]
        assert subprocess.run(argv, capture_output=True, check=False).returncode == 0, path


def test_only_the_cli_prints() -> None:
    calls = []
    for path in SOURCES:
        if "cli" in path.parts or str(path.relative_to(ROOT / "src/mngr")) in SENT_TO_HOSTS:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print":
                calls.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert calls == []
