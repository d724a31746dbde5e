"""Every test belongs to a target of the Makefile, and `make test` needs light programs only."""

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


def run_pytest(place: Path, text: str, *words: str, before: str = "") -> subprocess.CompletedProcess[str]:
    """Run these tests with the hooks and fixtures of this repository, after some lines of sh."""
    (place / "test_inner.py").write_text(text)
    argv = [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-p", "no:cacheprovider", *words]
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    return subprocess.run(
        ["sh", "-c", f'{before}\nexec "$@"', "sh", *argv, "test_inner.py"], cwd=place, env={**env, "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def collect(place: Path, names: list[str], expression: str) -> set[str]:
    """The fixtures whose test an expression of markers selects, when each has one."""
    text = "".join(f"def test_{name}({name}): ...\n" for name in names)
    ran = run_pytest(place, text, "--collect-only", "-q", "--strict-markers", "-m", expression)
    assert ran.returncode in (0, 5), ran.stdout + ran.stderr
    return set(re.findall(r"^test_inner\.py::test_(\w+)$", ran.stdout, re.MULTILINE))


def test_a_test_that_uses_a_heavy_fixture_gets_its_marker(tmp_path: Path) -> None:
    names = [*targets.FIXTURES, "tmp_path"]
    assert collect(tmp_path, names, LIGHT) == {"tmp_path"}
    for marker in targets.MARKERS:
        wanted = {name for name, given in targets.FIXTURES.items() if given == marker}
        assert wanted and collect(tmp_path, names, marker) == wanted


def test_a_test_that_asks_for_a_heavy_fixture_while_it_runs_needs_the_marker(tmp_path: Path) -> None:
    text = "def test_it(request): request.getfixturevalue('docker_engine')\n"
    ran = run_pytest(tmp_path, text)
    assert ran.returncode == 1
    assert "test_inner.py::test_it uses dockerd: mark it with pytest.mark.hosts" in ran.stdout


def test_every_fixture_of_hosts_is_light_or_heavy() -> None:
    found = {name for name, value in vars(fixtures).items() if type(value).__name__ == "FixtureFunctionDefinition"}
    assert len(found) > len(LIGHT_FIXTURES)
    assert found - LIGHT_FIXTURES - set(targets.FIXTURES) == set()
    assert not LIGHT_FIXTURES & set(targets.FIXTURES)


def test_each_marker_has_its_target() -> None:
    env = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    asked = {}
    for target in ("test", *(f"test-{name}" for name in targets.MARKERS)):
        argv = ["make", "-n", "-C", str(ROOT), target]
        shown = subprocess.run(argv, env=env, capture_output=True, text=True, check=True).stdout
        asked[target] = re.findall(r'-m pytest .*?-m "(.*?)"', shown)
    assert asked == {
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
def test_signals_that_the_caller_ignores_reach_what_tests_start(tmp_path: Path, workers: str) -> None:
    """As in a shell's background job and under nohup."""
    ran = run_pytest(tmp_path, IGNORED, "-n", workers, before="trap '' HUP INT QUIT")
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_a_test_that_plays_the_documents_gets_its_marker() -> None:
    assert all((ROOT / folder).is_dir() for folder in targets.FOLDERS)
    assert targets.find_folder_marker("tests/docs/tutorial/test_list.py::test_x") == "web"
    assert targets.find_folder_marker("tests/agents/inspect/test_list.py::test_x") is None


@pytest.mark.parametrize(
    "package",
    [path.name for path in sorted((ROOT / "src/mngr").iterdir()) if (path / "__init__.py").exists()],
)
def test_every_package_has_tests_that_need_light_programs_only(package: str) -> None:
    marked = re.compile(rf"^pytestmark = pytest\.mark\.({'|'.join(targets.MARKERS)})$", re.MULTILINE)
    files = [path for path in (ROOT / "tests" / package).rglob("test_*.py") if not marked.search(path.read_text())]
    assert files != []
