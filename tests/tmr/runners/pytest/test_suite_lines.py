"""Tests which lines mngr records for each test of a suite."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from mngr.tmr.runners.pytest.runner import PytestOptions, PytestRunner
from mngr.tmr.runners.test_run import SuiteRequest, SuiteRun
from tests.support.newer_python import find_monitoring_python, make_environment
from tests.tmr.world import PYTEST, new_world

pytestmark = pytest.mark.agents

FILES = {
    "shop.py": """
        def price(name):
            if name == "pear":
                return 1
            return 2


        def open_shop():
            yield 1
            close_shop()


        def close_shop():
            return None
        """,
    "tests/conftest.py": """
        import pytest

        import shop


        @pytest.fixture(scope="session")
        def opened():
            yield from shop.open_shop()
        """,
    "tests/test_shop.py": """
        import os
        import subprocess
        import sys

        from shop import price


        def test_pear():
            assert price("pear") == 1


        def test_plum():
            assert price("plum") == 2


        def test_first_user(opened):
            pass


        def test_second_user(opened):
            pass


        def test_other_program():
            subprocess.run([sys.executable, "-c", "import shop; shop.price('pear')"], check=True, env={})


        def test_fork():
            child = os.fork()
            if not child:
                price("plum")
                os._exit(0)
            os.waitpid(child, 0)
        """,
    "pytest.ini": "[pytest]\naddopts = -p no:cacheprovider\npythonpath = .\n",
}


def list_interpreters() -> list[str]:
    """Return the Python of the tests and, if it is another one, a Python with `sys.monitoring`."""
    newer = find_monitoring_python()
    return [sys.executable, *([newer] if newer not in (None, sys.executable) else [])]


def name_interpreter(python: str) -> str:
    return "own Python" if python == sys.executable else "Python with sys.monitoring"


@pytest.fixture(scope="module", params=list_interpreters(), ids=name_interpreter)
def suite_run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SuiteRun]:
    with new_world(tmp_path_factory.mktemp("lines"), FILES) as world:
        pytest_command = PYTEST
        if request.param != sys.executable:
            python = make_environment(request.param, tmp_path_factory.mktemp("python") / "environment")
            pytest_command = [python, "-m", "pytest"]
        runner = PytestRunner(PytestOptions(pytest=pytest_command))
        yield runner.run_suite(world.room, SuiteRequest(tests=world.collected.tests, trace=True, stall=60.0))


def list_shop_lines(suite_run: SuiteRun, name: str) -> list[int]:
    return suite_run.lines.tests[f"tests/test_shop.py::{name}"].get("shop.py", [])


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("test_pear", [3, 4]),
        ("test_plum", [3, 5]),
        ("test_first_user", [9, 10, 14]),
        ("test_second_user", [9, 10, 14]),
        ("test_fork", [3, 5]),
    ],
)
def test_each_test_has_the_lines_that_it_and_its_shared_fixtures_run(
    suite_run: SuiteRun, name: str, lines: list[int]
) -> None:
    assert suite_run.runs[f"tests/test_shop.py::{name}"].outcome == "pass"
    assert list_shop_lines(suite_run, name) == lines


def test_the_lines_of_a_program_that_a_test_starts_belong_to_the_test(suite_run: SuiteRun) -> None:
    assert {3, 4} <= set(list_shop_lines(suite_run, "test_other_program"))


def test_lines_that_run_during_imports_belong_to_no_test(suite_run: SuiteRun) -> None:
    assert suite_run.lines.outside["shop.py"] == [2, 8, 13]
    assert suite_run.lines.modules["shop"] == "shop.py"


@pytest.mark.full
def test_a_python_with_sys_monitoring_is_installed_for_these_tests() -> None:
    assert find_monitoring_python(), "install Python 3.12 or newer, and add it to PATH"
