"""Tests how `mngr init` finds the requirements of a Python project's tests when only pip is there."""

from __future__ import annotations

import shutil
from typing import Any

import pytest

from tests.conftest import MngrProgram
from tests.setup.init.test_init import IN_VENV, PIP, write_files

TEST = {"tests/test_a.py": "import app\n"}
GROUPS = PIP.replace("pip install", "pip install 'pip>=25.1' && .venv/bin/pip install")


def find_setup(mngr: MngrProgram, files: dict[str, str]) -> tuple[str, list[str]]:
    """Return the set-up command without its constant start, and the notes."""
    write_files(mngr.repo, files)
    found = mngr.run_json("init", "--dry-run")
    commands = [finding["value"] for finding in found["findings"] if finding["key"] == "project.setup"]
    return commands[0].removeprefix(GROUPS).removeprefix(PIP).strip(), found["notes"]


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"pyproject.toml": "[project]\nname='a'\n[project.optional-dependencies]\ntest=['pytest']\n"}, "-e '.[test]'"),
        (
            {"pyproject.toml": "[project]\nname='a'\n[dependency-groups]\ntests=['pytest']\ndev=['x']\n"},
            "-e . --group tests",
        ),
        (
            {"pyproject.toml": "[project]\nname='a'\n[dependency-groups]\nt=['pytest']\ndev=[{include-group='t'}]\n"},
            "-e . --group dev",
        ),
        (
            {
                "pyproject.toml": "[build-system]\n[tool.poetry.group.dev.dependencies]\npytest='^7.1'\n"
                "mock={version='*',extras=['a']}\nlocal={path='../x'}\n"
            },
            "-e . 'pytest>=7.1' 'mock[a]'",
        ),
        ({"pyproject.toml": "[project]\n[tool.pdm.dev-dependencies]\ntest=['pytest>=7']\n"}, "-e . 'pytest>=7'"),
        ({"pyproject.toml": "[project]\n[tool.hatch.envs.test]\ndependencies=['pytest']\n"}, "-e . pytest"),
        ({"setup.py": "from setuptools import setup\nE={'tests': ['pytest']}\nsetup(extras_require=E)"}, "-e '.[tests]'"),
        ({"setup.py": "import setuptools\nsetuptools.setup(tests_require=['pytest', 'mock'])"}, "-e . pytest mock"),
        ({"setup.cfg": "[metadata]\nname=a\n[options.extras_require]\ntesting =\n  pytest\n"}, "-e '.[testing]'"),
        (
            {
                "setup.py": "",
                "tox.ini": "[testenv]\ndeps =\n  pytest >= 6  # new\n  py27: mock\n  -rreq.txt\n  {[x]d}\n[x]\nd = six\n",
                "req.txt": "a\n",
            },
            "-e . 'pytest >= 6' -r req.txt six",
        ),
        ({"setup.py": "", "tox.ini": "[testenv]\nextras = test\ndeps = .[test]\n  pytest"}, "-e '.[test]' pytest"),
        ({"pyproject.toml": "[project]\n[tool.tox.env_run_base]\ndeps=['pytest']\n"}, "-e . pytest"),
        (
            {
                "setup.py": "",
                "noxfile.py": "import nox\n@nox.session\ndef tests(s):\n    s.install('-r', 'r.txt', 'pytest')\n"
                "@nox.session\ndef lint(s):\n    s.install('flake8')\n",
                "r.txt": "a\n",
            },
            "-e . -r r.txt pytest",
        ),
        ({"setup.py": "", "requirements/tests.txt": "pytest\n"}, "-e . -r requirements/tests.txt"),
        ({"setup.py": "", "dev-requirements.txt": "-r base.txt\n", "base.txt": "pytest"}, "-e . -r dev-requirements.txt"),
        ({"setup.py": "", "tests/requirements.txt": "pytest\n"}, "-e . -r tests/requirements.txt"),
        ({"requirements.txt": "flask\n"}, "-r requirements.txt pytest"),
        ({"setup.py": "", "requirements.txt": "flask\n"}, "-e . pytest"),
        ({"backend/pyproject.toml": "[project]\nname='a'\n[dependency-groups]\ntest=['pytest']\n"}, "-e ./backend --group backend/pyproject.toml:test"),
        ({"pyproject.toml": "tool = 5\nproject = [1]\n"}, "-e . pytest"),
        ({"pyproject.toml": "[tool"}, "pytest"),
        ({"tests/test_a.py": "import hypothesis\n"}, "hypothesis pytest"),
    ],
)  # fmt: skip
def test_requirements_of_the_tests_are_installed(mngr: MngrProgram, files: dict[str, str], expected: str) -> None:
    assert find_setup(mngr, {**TEST, **files})[0] == expected


def test_set_up_installs_pytest_if_nothing_else_does_and_says_so(mngr: MngrProgram) -> None:
    command, notes = find_setup(mngr, {**TEST, "setup.py": ""})
    assert command == "-e . pytest"
    assert notes == ["Set-up also installs pytest: nothing in the project installs it."]


@pytest.mark.parametrize("ignored", ["", "bin\nlib\n"])
def test_git_ignores_the_environment_that_set_up_creates(mngr: MngrProgram, ignored: str) -> None:
    (mngr.repo / ".gitignore").write_text(ignored)
    assert ".venv && echo '*' >.venv/.gitignore && .venv/bin/pip" in find_setup(mngr, {**TEST, "setup.py": ""})[0]


def test_packages_that_pytest_or_the_tests_need_are_installed(mngr: MngrProgram) -> None:
    files = {
        "pyproject.toml": "[project]\n[tool.pytest.ini_options]\naddopts='--cov=a -n auto'\nasyncio_mode='auto'\n",
        "tests/test_a.py": "import hypothesis\nfrom mock import patch\nimport responses\n",
        "tests/responses.py": "",
    }
    command, notes = find_setup(mngr, files)
    assert command == "-e . pytest-cov pytest-xdist pytest-asyncio hypothesis mock pytest"
    assert "Set-up also installs hypothesis: tests/test_a.py imports hypothesis." in notes


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"tests/test_a.py": ""}, "python3 -m pytest"),
        ({"pkg/tests/test_a.py": "", "setup.py": ""}, IN_VENV),
        (
            {"setup.py": "", "tests/testing_a.py": "import unittest\nclass A(unittest.TestCase): pass\n"},
            f"{IN_VENV} -o 'python_files=test*.py'",
        ),
        ({"back/setup.cfg": "[metadata]\n", "back/tests/a_test.py": ""}, f"{IN_VENV} -c back/setup.cfg"),
        ({"src/app.py": "", "tests/test_a.py": ""}, "python3 -m pytest -o pythonpath=src"),
        ({"setup.py": "", "tests/helper.py": ""}, None),
    ],
)
def test_the_command_for_the_tests_is_found(mngr: MngrProgram, files: dict[str, str], expected: str | None) -> None:
    shutil.rmtree(mngr.repo / "src")
    write_files(mngr.repo, files)
    settings: dict[str, Any] = {
        finding["key"]: finding["value"] for finding in mngr.run_json("init", "--dry-run")["findings"]
    }
    assert settings.get("project.pytest") == expected
