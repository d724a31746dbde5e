"""Every test belongs to a Makefile target, and `make test` needs only light programs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import targets
from tests.support.hosts import fixtures

ROOT = Path(__file__).parents[2]
LIGHT = " and ".join(f"not {name}" for name in targets.MARKERS)
# These fixtures start only programs that `make test` installs.
LIGHT_FIXTURES = {"three_hosts", "ten_hosts", "farm", "big_farm"}


def run_pytest(directory: Path, text: str, *words: str, before: str = "") -> subprocess.CompletedProcess[str]:
    """Run these tests with the hooks and fixtures of this repository, after the shell lines `before`."""
    (directory / "test_inner.py").write_text(text)
    argv = [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-p", "no:cacheprovider", *words]
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    return subprocess.run(
        ["sh", "-c", f'{before}\nexec "$@"', "sh", *argv, "test_inner.py"], cwd=directory, env={**env, "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def collect(directory: Path, names: list[str], expression: str) -> set[str]:
    """Return the fixtures whose tests a marker expression selects. Each fixture has one test."""
    text = "".join(f"def test_{name}({name}): ...\n" for name in names)
    completed = run_pytest(directory, text, "--collect-only", "-q", "--strict-markers", "-m", expression)
    assert completed.returncode in (0, 5), completed.stdout + completed.stderr
    return set(re.findall(r"^test_inner\.py::test_(\w+)$", completed.stdout, re.MULTILINE))


def test_a_test_that_uses_a_heavy_fixture_gets_its_marker(tmp_path: Path) -> None:
    names = [*targets.FIXTURES, "tmp_path"]
    assert collect(tmp_path, names, LIGHT) == {"tmp_path"}
    for marker in targets.MARKERS:
        expected = {name for name, fixture_marker in targets.FIXTURES.items() if fixture_marker == marker}
        assert expected and collect(tmp_path, names, marker) == expected


def test_a_test_that_asks_for_a_heavy_fixture_while_it_runs_needs_the_marker(tmp_path: Path) -> None:
    text = "def test_it(request): request.getfixturevalue('docker_engine')\n"
    completed = run_pytest(tmp_path, text)
    assert completed.returncode == 1
    assert "test_inner.py::test_it uses dockerd: mark it with pytest.mark.hosts" in completed.stdout


def test_every_fixture_of_hosts_is_light_or_heavy() -> None:
    fixture_names = {
        name for name, value in vars(fixtures).items() if type(value).__name__ == "FixtureFunctionDefinition"
    }
    assert len(fixture_names) > len(LIGHT_FIXTURES)
    assert fixture_names - LIGHT_FIXTURES - set(targets.FIXTURES) == set()
    assert not LIGHT_FIXTURES & set(targets.FIXTURES)


def test_each_marker_has_its_own_make_target() -> None:
    env = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    expressions = {}
    for target in ("test", *(f"test-{name}" for name in targets.MARKERS)):
        argv = ["make", "-n", "-C", str(ROOT), target]
        output = subprocess.run(argv, env=env, capture_output=True, text=True, check=True).stdout
        expressions[target] = re.findall(r'(?:-m pytest|test_with_engines\.py) .*?-m "(.*?)"', output)
    assert expressions == {
        "test": [LIGHT],
        "test-hosts": ["hosts and not agents"],
        "test-agents": ["agents"],
        "test-web": ["web and not hosts and not agents"],
    }


IGNORED = """
import subprocess

def test_a_child_ignores_nothing():
    said = subprocess.run(["grep", "SigIgn", "/proc/self/status"], capture_output=True, text=True).stdout
    assert int(said.split()[1], 16) & 0b111 == 0
"""


@pytest.mark.parametrize("workers", ["0", "1"])
def test_programs_started_by_tests_do_not_inherit_ignored_signals(tmp_path: Path, workers: str) -> None:
    """Signals are ignored in a shell's background job and under nohup."""
    completed = run_pytest(tmp_path, IGNORED, "-n", workers, before="trap '' HUP INT QUIT")
    assert completed.returncode == 0, completed.stdout + completed.stderr


def test_tests_of_the_documents_get_their_marker() -> None:
    assert all((ROOT / folder).is_dir() for folder in targets.FOLDERS)
    assert targets.find_folder_marker("tests/docs/tutorial/test_list.py::test_x") == "web"
    assert targets.find_folder_marker("tests/agents/inspect/test_list.py::test_x") is None


@pytest.mark.parametrize(
    "package",
    [path.name for path in sorted((ROOT / "src/mngr").iterdir()) if (path / "__init__.py").exists()],
)
def test_every_package_has_tests_that_need_only_light_programs(package: str) -> None:
    marked = re.compile(rf"^pytestmark = pytest\.mark\.({'|'.join(targets.MARKERS)})$", re.MULTILINE)
    files = [path for path in (ROOT / "tests" / package).rglob("test_*.py") if not marked.search(path.read_text())]
    assert files != []
