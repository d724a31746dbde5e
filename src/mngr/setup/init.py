"""Inspects a project and writes settings that say how to make a fresh copy of it runnable."""

from __future__ import annotations

import fnmatch
import glob
import json
import os
import re
import tomllib
from typing import Any

from mngr.agents.context import Context
from mngr.agents.settings_files import write_settings
from mngr.agents.workdir.project_setup import LOCK_FILES
from mngr.base import config, paths
from mngr.base.errors import MngrError
from mngr.base.model import Struct
from mngr.host import git
from mngr.host.protocol import Host

# Names of ignored files that a program needs to run: its local settings, but not build results.
_CARRY_PATTERNS = (
    ".env", ".env.*", ".envrc", ".dev.vars", ".npmrc", "local.settings*", "settings.local*", "config.local*", "local.properties",
    "*.local.json", "*.local.toml", "*.local.yaml", "*.local.yml", "local_settings.py",
)  # fmt: skip
_MAKE_TARGETS = ("setup", "bootstrap", "deps", "install-dev", "develop")
_TUTORIAL_PATHS = ("tutorial.sh", "docs/tutorial.sh", "examples/tutorial.sh")
_TUTORIAL_TESTS = ("tests/e2e", "test/e2e", "e2e")


class DetectedSetting(Struct):
    """A setting and the reason for it."""

    key: str
    value: Any
    because: str


class DetectedProject(Struct):
    """The detected settings and the text of their settings file."""

    path: str
    settings: list[DetectedSetting]
    text: str


def init_project(ctx: Context, *, force: bool = False, dry_run: bool = False) -> DetectedProject:
    """Inspect the current project and write its settings. Raise MngrError when it has settings already."""
    root = paths.find_project_root(ctx.cwd) or ctx.cwd
    path = os.path.join(root, paths.PROJECT_SETTINGS)
    if os.path.lexists(path) and not (force or dry_run):
        raise MngrError(f"{path} is there already", "see what would be written with --dry-run; replace it with --force")
    settings = detect_settings(ctx.local_host, root)
    project = DetectedProject(path=path, settings=settings, text=_format_settings(settings))
    if not dry_run:
        write_settings(ctx, path, project.text)
    return project


def detect_settings(host: Host, root: str) -> list[DetectedSetting]:
    """Return the settings that follow from the files of a project."""
    file_names = set(os.listdir(root))
    pyproject = _read_toml(root, "pyproject.toml")
    setups = [
        setup
        for setup in (
            _detect_python_setup(root, file_names, pyproject),
            _detect_node_setup(root, file_names),
            _detect_other_setup(file_names),
        )
        if setup
    ]
    settings: list[DetectedSetting] = []
    target = _find_make_target(root, file_names)
    if target:
        settings.append(
            DetectedSetting(key="project.setup", value=f"make {target}", because=f"the target {target} of the Makefile")
        )
        settings.append(DetectedSetting(key="project.lock", value=["Makefile"], because="it says what set-up does"))
    elif setups:
        command = " && ".join(command for command, _, _ in setups)
        settings.append(
            DetectedSetting(key="project.setup", value=command, because=", ".join(reason for _, reason, _ in setups))
        )
        extra_locks = [name for _, _, locks in setups for name in locks if name not in LOCK_FILES]
        if extra_locks:
            settings.append(
                DetectedSetting(
                    key="project.lock", value=extra_locks, because="what they say decides what set-up makes"
                )
            )
    carried = _detect_carried_files(host, root)
    if carried:
        settings.append(DetectedSetting(key="project.carry", value=carried, because="ignored by git, and there"))
    settings.extend(_detect_program(root, pyproject))
    settings.extend(_detect_tests(root, file_names, pyproject))
    return settings


def _detect_python_setup(
    root: str, file_names: set[str], pyproject: dict[str, Any]
) -> tuple[str, str, list[str]] | None:
    """Return (command, reason, lock files) that set up a Python project, or None."""
    tools = _get_table(pyproject, "tool")
    if "uv.lock" in file_names or "uv" in tools:
        return "uv sync", "uv.lock" if "uv.lock" in file_names else "[tool.uv] in pyproject.toml", []
    if "poetry.lock" in file_names or "poetry" in tools:
        reason = "poetry.lock" if "poetry.lock" in file_names else "[tool.poetry] in pyproject.toml"
        return "POETRY_VIRTUALENVS_IN_PROJECT=1 poetry install", reason, []
    if "pdm.lock" in file_names:
        return "pdm install", "pdm.lock", []
    files = sorted(
        name for name in file_names if re.fullmatch(r"(dev-|test-)?requirements([-_.](dev|test|tests))?\.txt", name)
    )
    is_package = "project" in pyproject or "setup.py" in file_names or "setup.cfg" in file_names
    if not files and not is_package:
        return None
    pip_args = [f"-r {name}" for name in files]
    if is_package:
        extras = [
            name
            for name in ("dev", "test", "tests")
            if name in _get_table(pyproject, "project", "optional-dependencies")
        ]
        pip_args.append(f"-e '.[{','.join(extras)}]'" if extras else "-e .")
    source = next((name for name in ("pyproject.toml", "setup.py", "setup.cfg") if name in file_names), None)
    reason = " and ".join([*files, *([source] if is_package and source else [])])
    return f"python3 -m venv .venv && .venv/bin/pip install {' '.join(pip_args)}", reason, files


def _detect_node_setup(root: str, file_names: set[str]) -> tuple[str, str, list[str]] | None:
    """Return (command, reason, lock files) that set up a Node project, or None."""
    if "package.json" not in file_names:
        return None
    commands = (
        ("pnpm-lock.yaml", "pnpm install --frozen-lockfile"),
        ("yarn.lock", "yarn install --frozen-lockfile"),
        ("package-lock.json", "npm ci"),
        ("package.json", "npm install"),
    )
    return next((command, name, []) for name, command in commands if name in file_names)


def _detect_other_setup(file_names: set[str]) -> tuple[str, str, list[str]] | None:
    """Return (command, reason, lock files) that set up a Rust or Go project, or None."""
    for name, command in (("Cargo.toml", "cargo fetch"), ("go.mod", "go mod download")):
        if name in file_names:
            return command, name, []
    return None


def _find_make_target(root: str, file_names: set[str]) -> str | None:
    """Return the Makefile's target that sets up the project, or None."""
    if "Makefile" not in file_names:
        return None
    targets = set(re.findall(r"^([A-Za-z0-9_.-]+)\s*:(?!=)", _read_text(root, "Makefile"), re.MULTILINE))
    return next((name for name in _MAKE_TARGETS if name in targets), None)


def _detect_carried_files(host: Host, root: str) -> list[str]:
    """Return patterns for the ignored files that a copy of the project needs."""
    result = git.run(host, root, "ls-files", "--others", "--ignored", "--exclude-standard", "--directory", "-z")
    names = result.out.decode("utf-8", "replace").split("\0") if result.code == 0 else []
    carried = [
        name for name in names if any(fnmatch.fnmatch(os.path.basename(name), pattern) for pattern in _CARRY_PATTERNS)
    ]
    return sorted(glob.escape(name) for name in carried if not name.startswith(".mngr/") and "\ufffd" not in name)


def _detect_program(root: str, pyproject: dict[str, Any]) -> list[DetectedSetting]:
    """Return the setting for the project's command-line program, if there clearly is one."""
    name = _get_table(pyproject, "project").get("name")
    for table_path in (("project", "scripts"), ("tool", "poetry", "scripts")):
        scripts = list(_get_table(pyproject, *table_path))
        if scripts:
            value = name if name in scripts else scripts[0]
            return [
                DetectedSetting(
                    key="project.program", value=value, because=f"[{'.'.join(table_path)}] in pyproject.toml"
                )
            ]
    try:
        package = json.loads(_read_text(root, "package.json") or "{}")
    except ValueError:
        return []
    binaries = package.get("bin") if isinstance(package, dict) else None
    if isinstance(binaries, dict) and binaries:
        return [DetectedSetting(key="project.program", value=next(iter(binaries)), because="bin in package.json")]
    if isinstance(binaries, str) and isinstance(package.get("name"), str):
        return [
            DetectedSetting(
                key="project.program", value=package["name"].rpartition("/")[2], because="bin in package.json"
            )
        ]
    return []


def _detect_tests(root: str, file_names: set[str], pyproject: dict[str, Any]) -> list[DetectedSetting]:
    """Return the settings for pytest and for the tutorial."""
    settings: list[DetectedSetting] = []
    reason = _find_pytest_reason(root, file_names, pyproject)
    if reason:
        pytest_command, tool_note = "python3 -m pytest", ""
        for name, lock_file, command in (
            ("uv", "uv.lock", "uv run pytest"),
            ("poetry", "poetry.lock", "poetry run pytest"),
        ):
            if lock_file in file_names or name in _get_table(pyproject, "tool"):
                pytest_command, tool_note = command, f", with {name}"
                break
        else:
            if _is_venv_created(root, file_names, pyproject):
                pytest_command, tool_note = ".venv/bin/python -m pytest", ", in .venv"
        settings.append(DetectedSetting(key="project.pytest", value=pytest_command, because=reason + tool_note))
    tutorial = next((name for name in _TUTORIAL_PATHS if os.path.isfile(os.path.join(root, name))), None)
    if tutorial:
        settings.append(DetectedSetting(key="tutorial.file", value=tutorial, because="it is there"))
    test_dirs = (*_TUTORIAL_TESTS, "tests") if tutorial else _TUTORIAL_TESTS
    tests = next((name for name in test_dirs if os.path.isdir(os.path.join(root, name))), None)
    if tests:
        settings.append(DetectedSetting(key="tutorial.tests", value=tests, because="it is there"))
    return settings


def _find_pytest_reason(root: str, file_names: set[str], pyproject: dict[str, Any]) -> str | None:
    """Return what shows that the project uses pytest, or None."""
    if "pytest" in _get_table(pyproject, "tool"):
        return "[tool.pytest] in pyproject.toml"
    for name in ("pytest.ini", "conftest.py"):
        if name in file_names:
            return name
    for folder in ("tests", "test"):
        try:
            names = sorted(os.listdir(os.path.join(root, folder)))
        except OSError:
            continue
        for name in names:
            if name == "conftest.py" or fnmatch.fnmatch(name, "test_*.py"):
                return f"{folder}/{name}"
    return None


def _is_venv_created(root: str, file_names: set[str], pyproject: dict[str, Any]) -> bool:
    """True when the project's set-up creates `.venv`."""
    if _find_make_target(root, file_names):
        return ".venv" in _read_text(root, "Makefile")
    setup = _detect_python_setup(root, file_names, pyproject)
    return setup is not None and ".venv" in setup[0]


def _read_text(root: str, name: str) -> str:
    try:
        with open(os.path.join(root, name), encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def _get_table(data: Any, *path: str) -> dict[str, Any]:
    """Return the table at a path, or an empty one."""
    for part in path:
        data = data.get(part) if isinstance(data, dict) else None
    return data if isinstance(data, dict) else {}


def _read_toml(root: str, name: str) -> dict[str, Any]:
    try:
        return tomllib.loads(_read_text(root, name))
    except tomllib.TOMLDecodeError:
        return {}


def _format_settings(settings: list[DetectedSetting]) -> str:
    """Return a settings file with the detected values, and with the other keys as comments."""
    import tomlkit

    values = {setting.key: setting.value for setting in settings}
    lines = ["# How mngr makes a fresh copy of this project runnable. See what is in effect: mngr config list"]
    for table in ("project", "tutorial"):
        lines += ["", f"[{table}]"]
        for key, (kind, description) in config.SCHEMA.items():
            if not key.startswith(table + "."):
                continue
            name = key.partition(".")[2]
            value = tomlkit.item(values.get(key, [] if kind is list else "")).as_string()
            lines += [f"# {description}", f"{'' if key in values else '# '}{name} = {value}"]
    return "\n".join(lines) + "\n"
