"""Tests `mngr init` as a user runs it."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import MngrProgram, run_git

PYPROJECT = '[project]\nname = "app"\n[project.scripts]\nother = "a:b"\napp = "a:main"\n'

PIP = "python3 -m venv .venv && .venv/bin/pip install"
IN_VENV = ".venv/bin/python -m pytest"


def write_files(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def install_tools(folder: Path, *names: str) -> dict[str, str]:
    """Write programs with these names, which do nothing, and return a PATH that has them."""
    folder.mkdir(exist_ok=True)
    for name in names:
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)
    return {"PATH": f"{folder}:{os.environ['PATH']}"}


def detect(mngr: MngrProgram, **more: Any) -> dict[str, Any]:
    """Return the settings that `mngr init` would write."""
    return {finding["key"]: finding["value"] for finding in mngr.run_json("init", "--dry-run", **more)["findings"]}


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, {}),
        (
            {"pyproject.toml": PYPROJECT, "uv.lock": "", "tests/test_a.py": ""},
            {
                "project.setup": "uv sync && uv pip install pytest",
                "project.program": "app",
                "project.pytest": IN_VENV,
            },
        ),
        (
            {"pyproject.toml": "[dependency-groups]\ntests = ['pytest']\n[tool.uv]\n", "tests/test_a.py": ""},
            {"project.setup": "uv sync --group tests", "project.pytest": IN_VENV},
        ),
        (
            {
                "pyproject.toml": "[tool.poetry.scripts]\ncli = 'a:b'\n[tool.poetry.dev-dependencies]\npytest = '*'\n",
                "poetry.lock": "",
                "conftest.py": "",
            },
            {
                "project.setup": "POETRY_VIRTUALENVS_IN_PROJECT=1 poetry install",
                "project.program": "cli",
                "project.pytest": IN_VENV,
            },
        ),
        (
            {"pdm.lock": "", "pyproject.toml": "[tool.pdm.dev-dependencies]\ntest = ['pytest']\n", "pytest.ini": ""},
            {"project.setup": "PDM_VENV_IN_PROJECT=1 pdm install", "project.pytest": IN_VENV},
        ),
        ({"package.json": "{}"}, {"project.setup": "npm install"}),
        (
            {"package.json": '{"bin": {"tool": "x.js"}}', "package-lock.json": ""},
            {"project.setup": "npm ci", "project.program": "tool"},
        ),
        (
            {"package.json": '{"name": "@org/tool", "bin": "x.js"}', "pnpm-lock.yaml": ""},
            {"project.setup": "pnpm install --frozen-lockfile", "project.program": "tool"},
        ),
        ({"package.json": "not json", "yarn.lock": ""}, {"project.setup": "yarn install --frozen-lockfile"}),
        ({"Cargo.toml": ""}, {"project.setup": "cargo fetch"}),
        ({"go.mod": ""}, {"project.setup": "go mod download"}),
        (
            {"uv.lock": "", "package.json": "", "package-lock.json": ""},
            {"project.setup": "uv sync && npm ci"},
        ),
        (
            {"Makefile": "all:\n\ttrue\nsetup: all\n\t.venv/bin/x\n", "uv.lock": ""},
            {"project.setup": "make setup", "project.lock": ["Makefile"]},
        ),
        (
            {"Makefile": "develop:\n\tpip install -e .\n", "test_a.py": ""},
            {
                "project.setup": "python3 -m venv .venv && . .venv/bin/activate && make develop",
                "project.lock": ["Makefile"],
                "project.pytest": IN_VENV,
            },
        ),
        ({"Makefile": "setup := no\nbuild:\n\ttrue\n"}, {}),
        ({"Makefile": "setup:\n\tconda env create\n"}, {}),
        ({"tutorial.sh": "", "tests/x": ""}, {"tutorial.file": "tutorial.sh", "tutorial.tests": "tests"}),
        (
            {"docs/tutorial.sh": "", "tests/e2e/x": ""},
            {"tutorial.file": "docs/tutorial.sh", "tutorial.tests": "tests/e2e"},
        ),
    ],
)
def test_init_detects_settings_from_project_files(
    mngr: MngrProgram, tmp_path: Path, files: dict[str, str], expected: dict[str, Any]
) -> None:
    write_files(mngr.repo, files)
    assert detect(mngr, env=install_tools(tmp_path / "tools", "uv", "poetry", "pdm")) == expected


def test_a_lock_file_without_its_tool_is_reported_and_pip_is_used(mngr: MngrProgram) -> None:
    write_files(mngr.repo, {"pyproject.toml": PYPROJECT, "uv.lock": "", "tests/test_a.py": ""})
    found = mngr.run_json("init", "--dry-run")
    assert found["findings"][0]["value"] == f"{PIP} -e . pytest"
    assert found["notes"][0].startswith("the project has uv.lock, but uv is not installed here.")
    assert found["notes"][0].endswith("install uv and run: mngr init --force")


def test_ignored_settings_files_are_carried_but_not_build_results(mngr: MngrProgram) -> None:
    (mngr.repo / ".gitignore").write_text(
        ".env\n.env.*\n!.env.example\nlocal.settings.json\n*.log\nnode_modules/\nbuild/\n"
    )
    write_files(
        mngr.repo,
        {
            ".env": "", ".env.test": "", ".env.example": "", "web/.env": "", "local.settings.json": "", "x.log": "",
            "node_modules/a/.env": "", "build/out": "", "settings.local.toml": "", "web/.env.[a]": "",
        },
    )  # fmt: skip
    assert detect(mngr)["project.carry"] == [
        ".env",
        ".env.test",
        "local.settings.json",
        "web/.env",
        "web/.env.[[]a]",
    ]


def test_init_writes_one_valid_settings_file_and_changes_nothing_else(mngr: MngrProgram, tmp_path: Path) -> None:
    write_files(mngr.repo, {"pyproject.toml": PYPROJECT, "uv.lock": ""})
    run_git(mngr.repo, "add", "-A")
    run_git(mngr.repo, "commit", "-q", "-m", "more")
    (mngr.repo / "sub").mkdir()
    result = mngr("init", cwd=mngr.repo / "sub", env=install_tools(tmp_path / "tools", "uv"))
    assert "uv sync" in result.out
    assert "uv.lock" in result.out
    path = mngr.repo / ".mngr/settings.toml"
    assert f"wrote {path}" in result.out
    assert run_git(mngr.repo, "status", "--porcelain", "--untracked-files=all") == "?? .mngr/settings.toml"
    assert tomllib.loads(path.read_text())["project"] == {"setup": "uv sync", "program": "app"}
    assert mngr("config", "get", "project.setup").out == "uv sync\n"
    assert mngr.run_json("trust", "--show")["is_trusted"] is True


def test_existing_settings_are_kept_unless_forced(mngr: MngrProgram) -> None:
    mngr("init")
    path = mngr.repo / ".mngr/settings.toml"
    path.write_text('[project]\nsetup = "mine"\n')
    result = mngr("init", code=1)
    assert "already exists" in result.err
    assert "--force" in result.err
    assert path.read_text() == '[project]\nsetup = "mine"\n'
    mngr("init", "--force")
    assert "mine" not in path.read_text()


def test_a_dry_run_prints_the_file_and_writes_nothing(mngr: MngrProgram) -> None:
    result = mngr("init", "--dry-run")
    assert tomllib.loads(result.out) == {"project": {}, "tutorial": {}}
    assert "did not find out how to set up the project" in result.err
    assert not (mngr.repo / ".mngr").exists()


def test_init_works_without_git(mngr: MngrProgram, tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    write_files(plain, {"go.mod": ""})
    mngr("init", cwd=plain)
    assert tomllib.loads((plain / ".mngr/settings.toml").read_text())["project"] == {"setup": "go mod download"}


def test_init_reports_a_path_that_cannot_be_written(mngr: MngrProgram) -> None:
    (mngr.repo / ".mngr").write_text("a file in the way")
    result = mngr("init", code=1)
    assert "cannot write" in result.err


def test_git_ignores_the_local_settings_of_a_project(mngr: MngrProgram) -> None:
    mngr("init")
    mngr("config", "set", "project.setup", "true", "--local")
    assert run_git(mngr.repo, "status", "--porcelain", "--untracked-files=all").split() == ["??", ".mngr/settings.toml"]


def test_an_existing_gitignore_of_the_settings_stays(mngr: MngrProgram) -> None:
    write_files(mngr.repo, {".mngr/.gitignore": "mine\n"})
    mngr("init")
    assert (mngr.repo / ".mngr/.gitignore").read_text() == "mine\n"
