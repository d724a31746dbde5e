"""`init`: look at a project and write down how a fresh copy of it is made runnable."""

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

# What ignored files are called that a program needs to run: its local settings, not what was built.
_CARRY_PATTERNS = (
    ".env", ".env.*", ".envrc", ".dev.vars", ".npmrc", "local.settings*", "settings.local*", "config.local*", "local.properties",
    "*.local.json", "*.local.toml", "*.local.yaml", "*.local.yml", "local_settings.py",
)  # fmt: skip
_MAKE_TARGETS = ("setup", "bootstrap", "deps", "install-dev", "develop")
_TUTORIAL_PATHS = ("tutorial.sh", "docs/tutorial.sh", "examples/tutorial.sh")
_TUTORIAL_TESTS = ("tests/e2e", "test/e2e", "e2e")


class DetectedSetting(Struct):
    """A setting and what it was concluded from."""

    key: str
    value: Any
    because: str


class DetectedProject(Struct):
    """What was found, and the settings file that says so."""

    path: str
    settings: list[DetectedSetting]
    text: str


def init_project(ctx: Context, *, force: bool = False, dry_run: bool = False) -> DetectedProject:
    """Look at the project here and write its settings; MngrError when there are some already."""
    root = paths.find_project_root(ctx.cwd) or ctx.cwd
    path = os.path.join(root, paths.PROJECT_SETTINGS)
    if os.path.lexists(path) and not (force or dry_run):
        raise MngrError(f"{path} is there already", "see what would be written with --dry-run; replace it with --force")
    findings = detect_settings(ctx.local_host, root)
    project = DetectedProject(path=path, settings=findings, text=_format_settings(findings))
    if not dry_run:
        write_settings(ctx, path, project.text)
    return project


def detect_settings(host: Host, root: str) -> list[DetectedSetting]:
    """Everything that can be told from the files of a project."""
    here = set(os.listdir(root))
    pyproject = _read_toml(root, "pyproject.toml")
    setups = [
        found
        for found in (
            _detect_python_setup(root, here, pyproject),
            _detect_node_setup(root, here),
            _detect_other_setup(here),
        )
        if found
    ]
    findings: list[DetectedSetting] = []
    target = _find_make_target(root, here)
    if target:
        findings.append(
            DetectedSetting(key="project.setup", value=f"make {target}", because=f"the target {target} of the Makefile")
        )
        findings.append(DetectedSetting(key="project.lock", value=["Makefile"], because="it says what set-up does"))
    elif setups:
        command = " && ".join(command for command, _, _ in setups)
        findings.append(
            DetectedSetting(key="project.setup", value=command, because=", ".join(why for _, why, _ in setups))
        )
        more = [name for _, _, locks in setups for name in locks if name not in LOCK_FILES]
        if more:
            findings.append(
                DetectedSetting(key="project.lock", value=more, because="what they say decides what set-up makes")
            )
    carried = _detect_carried_files(host, root)
    if carried:
        findings.append(DetectedSetting(key="project.carry", value=carried, because="ignored by git, and there"))
    findings.extend(_detect_program(root, pyproject))
    findings.extend(_detect_tests(root, here, pyproject))
    return findings


def _detect_python_setup(root: str, here: set[str], pyproject: dict[str, Any]) -> tuple[str, str, list[str]] | None:
    tools = _get_table(pyproject, "tool")
    if "uv.lock" in here or "uv" in tools:
        return "uv sync", "uv.lock" if "uv.lock" in here else "[tool.uv] in pyproject.toml", []
    if "poetry.lock" in here or "poetry" in tools:
        why = "poetry.lock" if "poetry.lock" in here else "[tool.poetry] in pyproject.toml"
        return "POETRY_VIRTUALENVS_IN_PROJECT=1 poetry install", why, []
    if "pdm.lock" in here:
        return "pdm install", "pdm.lock", []
    files = sorted(
        name for name in here if re.fullmatch(r"(dev-|test-)?requirements([-_.](dev|test|tests))?\.txt", name)
    )
    is_package = "project" in pyproject or "setup.py" in here or "setup.cfg" in here
    if not files and not is_package:
        return None
    wanted = [f"-r {name}" for name in files]
    if is_package:
        extras = [
            name
            for name in ("dev", "test", "tests")
            if name in _get_table(pyproject, "project", "optional-dependencies")
        ]
        wanted.append(f"-e '.[{','.join(extras)}]'" if extras else "-e .")
    source = next((name for name in ("pyproject.toml", "setup.py", "setup.cfg") if name in here), None)
    why = " and ".join([*files, *([source] if is_package and source else [])])
    return f"python3 -m venv .venv && .venv/bin/pip install {' '.join(wanted)}", why, files


def _detect_node_setup(root: str, here: set[str]) -> tuple[str, str, list[str]] | None:
    if "package.json" not in here:
        return None
    known = (
        ("pnpm-lock.yaml", "pnpm install --frozen-lockfile"),
        ("yarn.lock", "yarn install --frozen-lockfile"),
        ("package-lock.json", "npm ci"),
        ("package.json", "npm install"),
    )
    return next((command, name, []) for name, command in known if name in here)


def _detect_other_setup(here: set[str]) -> tuple[str, str, list[str]] | None:
    for name, command in (("Cargo.toml", "cargo fetch"), ("go.mod", "go mod download")):
        if name in here:
            return command, name, []
    return None


def _find_make_target(root: str, here: set[str]) -> str | None:
    if "Makefile" not in here:
        return None
    targets = set(re.findall(r"^([A-Za-z0-9_.-]+)\s*:(?!=)", _read_text(root, "Makefile"), re.MULTILINE))
    return next((name for name in _MAKE_TARGETS if name in targets), None)


def _detect_carried_files(host: Host, root: str) -> list[str]:
    listed = git.run(host, root, "ls-files", "--others", "--ignored", "--exclude-standard", "--directory", "-z")
    names = listed.out.decode("utf-8", "replace").split("\0") if listed.code == 0 else []
    wanted = [
        name for name in names if any(fnmatch.fnmatch(os.path.basename(name), pattern) for pattern in _CARRY_PATTERNS)
    ]
    return sorted(glob.escape(name) for name in wanted if not name.startswith(".mngr/") and "\ufffd" not in name)


def _detect_program(root: str, pyproject: dict[str, Any]) -> list[DetectedSetting]:
    """The command-line program the project is about, where it is clear which one."""
    name = _get_table(pyproject, "project").get("name")
    for where in (("project", "scripts"), ("tool", "poetry", "scripts")):
        scripts = list(_get_table(pyproject, *where))
        if scripts:
            value = name if name in scripts else scripts[0]
            return [
                DetectedSetting(key="project.program", value=value, because=f"[{'.'.join(where)}] in pyproject.toml")
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


def _detect_tests(root: str, here: set[str], pyproject: dict[str, Any]) -> list[DetectedSetting]:
    found: list[DetectedSetting] = []
    why = _find_pytest_reason(root, here, pyproject)
    if why:
        prefix, tool = "python3 -m pytest", ""
        for name, sign, command in (
            ("uv", "uv.lock", "uv run pytest"),
            ("poetry", "poetry.lock", "poetry run pytest"),
        ):
            if sign in here or name in _get_table(pyproject, "tool"):
                prefix, tool = command, f", with {name}"
                break
        else:
            if _is_venv_created(root, here, pyproject):
                prefix, tool = ".venv/bin/python -m pytest", ", in .venv"
        found.append(DetectedSetting(key="project.pytest", value=prefix, because=why + tool))
    tutorial = next((name for name in _TUTORIAL_PATHS if os.path.isfile(os.path.join(root, name))), None)
    if tutorial:
        found.append(DetectedSetting(key="tutorial.file", value=tutorial, because="it is there"))
    places = (*_TUTORIAL_TESTS, "tests") if tutorial else _TUTORIAL_TESTS
    tests = next((name for name in places if os.path.isdir(os.path.join(root, name))), None)
    if tests:
        found.append(DetectedSetting(key="tutorial.tests", value=tests, because="it is there"))
    return found


def _find_pytest_reason(root: str, here: set[str], pyproject: dict[str, Any]) -> str | None:
    if "pytest" in _get_table(pyproject, "tool"):
        return "[tool.pytest] in pyproject.toml"
    for name in ("pytest.ini", "conftest.py"):
        if name in here:
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


def _is_venv_created(root: str, here: set[str], pyproject: dict[str, Any]) -> bool:
    if _find_make_target(root, here):
        return ".venv" in _read_text(root, "Makefile")
    made = _detect_python_setup(root, here, pyproject)
    return made is not None and ".venv" in made[0]


def _read_text(root: str, name: str) -> str:
    try:
        with open(os.path.join(root, name), encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def _get_table(data: Any, *path: str) -> dict[str, Any]:
    """The table at a path; empty where there is none or something else."""
    for part in path:
        data = data.get(part) if isinstance(data, dict) else None
    return data if isinstance(data, dict) else {}


def _read_toml(root: str, name: str) -> dict[str, Any]:
    try:
        return tomllib.loads(_read_text(root, name))
    except tomllib.TOMLDecodeError:
        return {}


def _format_settings(findings: list[DetectedSetting]) -> str:
    """A settings file with what was found, and the rest as comments to fill in."""
    import tomlkit

    found = {finding.key: finding.value for finding in findings}
    lines = ["# How mngr makes a fresh copy of this project runnable. See what is in effect: mngr config list"]
    for table in ("project", "tutorial"):
        lines += ["", f"[{table}]"]
        for key, (kind, what) in config.SCHEMA.items():
            if not key.startswith(table + "."):
                continue
            name = key.partition(".")[2]
            value = tomlkit.item(found.get(key, [] if kind is list else "")).as_string()
            lines += [f"# {what}", f"{'' if key in found else '# '}{name} = {value}"]
    return "\n".join(lines) + "\n"
