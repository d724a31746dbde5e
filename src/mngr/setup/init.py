"""Inspects a project and writes settings that say how to make a fresh copy of it runnable."""

from __future__ import annotations

import fnmatch
import glob
import json
import os
import re
import tomllib

from mngr.agents.context import Context
from mngr.agents.edit_settings import write_settings
from mngr.agents.workdir.project_setup import LOCK_FILES
from mngr.base import config, paths
from mngr.base.errors import MngrError
from mngr.base.json_values import as_object, get_object, get_text
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
_REQUIREMENTS_FILE = re.compile(r"(dev-|test-)?requirements([-_.](dev|test|tests))?\.txt")


class DetectedSetting(Struct):
    """A setting and the reason for it."""

    key: str
    value: str | list[str]
    reason: str


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
        ctx.extend_trust(root, {setting.key: setting.value for setting in settings})
    return project


class _SetupCommand(Struct):
    """A command that makes a fresh copy of a project runnable, and the reason for it."""

    command: str
    reason: str
    files: tuple[str, ...] = ()  # files that the command reads


class _ProjectFiles(Struct):
    """The files at the top of a project, and the contents of its pyproject.toml."""

    root: str
    names: frozenset[str]
    pyproject: dict[str, object]

    def get_table(self, *path: str) -> dict[str, object]:
        """Return a table of pyproject.toml, or an empty one."""
        table = self.pyproject
        for part in path:
            table = get_object(table, part)
        return table

    def find_first(self, names: tuple[str, ...]) -> str | None:
        """Return the first of the names that the project has."""
        return next((name for name in names if name in self.names), None)

    def find_tool_reason(self, tool: str) -> str | None:
        """Return what shows that the project uses uv or poetry, or None."""
        if f"{tool}.lock" in self.names:
            return f"{tool}.lock"
        return f"[tool.{tool}] in pyproject.toml" if tool in self.get_table("tool") else None

    def read_text(self, name: str) -> str:
        """Return the text of a file, or an empty text."""
        try:
            with open(os.path.join(self.root, name), encoding="utf-8", errors="replace") as file:
                return file.read()
        except OSError:
            return ""


def detect_settings(host: Host, root: str) -> list[DetectedSetting]:
    """Return the settings that follow from the files of a project."""
    files = _read_project(root)
    carried = _detect_carried_files(host, root)
    settings = _detect_setup(files)
    if carried:
        settings.append(DetectedSetting(key="project.carry", value=carried, reason="ignored by git, and there"))
    return [*settings, *_detect_program(files), *_detect_pytest(files), *_detect_tutorial(root)]


def _read_project(root: str) -> _ProjectFiles:
    files = _ProjectFiles(root=root, names=frozenset(os.listdir(root)), pyproject={})
    try:
        return files.replace(pyproject=tomllib.loads(files.read_text("pyproject.toml")))
    except tomllib.TOMLDecodeError:
        return files


def _detect_setup(files: _ProjectFiles) -> list[DetectedSetting]:
    """Return the command that sets up the project, and the files that decide whether it must run again."""
    target = _find_make_target(files)
    if target:
        reason = f"the target {target} of the Makefile"
        return [
            DetectedSetting(key="project.setup", value=f"make {target}", reason=reason),
            DetectedSetting(key="project.lock", value=["Makefile"], reason="it says what set-up does"),
        ]
    candidates = [_find_python_setup(files), _find_node_setup(files), _find_other_setup(files)]
    setups = [setup for setup in candidates if setup is not None]
    if not setups:
        return []
    command = " && ".join(setup.command for setup in setups)
    reason = ", ".join(setup.reason for setup in setups)
    settings = [DetectedSetting(key="project.setup", value=command, reason=reason)]
    extra_locks = [name for setup in setups for name in setup.files if name not in LOCK_FILES]
    if extra_locks:
        reason = "what they say decides what set-up makes"
        settings.append(DetectedSetting(key="project.lock", value=extra_locks, reason=reason))
    return settings


def _find_python_setup(files: _ProjectFiles) -> _SetupCommand | None:
    """Return the command that sets up a Python project, or None."""
    uv_reason = files.find_tool_reason("uv")
    if uv_reason:
        return _SetupCommand(command="uv sync", reason=uv_reason)
    poetry_reason = files.find_tool_reason("poetry")
    if poetry_reason:
        return _SetupCommand(command="POETRY_VIRTUALENVS_IN_PROJECT=1 poetry install", reason=poetry_reason)
    if "pdm.lock" in files.names:
        return _SetupCommand(command="pdm install", reason="pdm.lock")
    return _find_pip_setup(files)


def _find_pip_setup(files: _ProjectFiles) -> _SetupCommand | None:
    """Return the command that installs requirements files and the package itself with pip, or None."""
    requirements = sorted(name for name in files.names if _REQUIREMENTS_FILE.fullmatch(name))
    pip_args = [f"-r {name}" for name in requirements]
    reasons = list(requirements)
    if "project" in files.pyproject or files.find_first(("setup.py", "setup.cfg")):
        optional = files.get_table("project", "optional-dependencies")
        extras = ",".join(name for name in ("dev", "test", "tests") if name in optional)
        pip_args.append(f"-e '.[{extras}]'" if extras else "-e .")
        reasons.append(files.find_first(("pyproject.toml", "setup.py", "setup.cfg")) or "")
    if not pip_args:
        return None
    command = f"python3 -m venv .venv && .venv/bin/pip install {' '.join(pip_args)}"
    return _SetupCommand(command=command, reason=" and ".join(reasons), files=tuple(requirements))


def _find_node_setup(files: _ProjectFiles) -> _SetupCommand | None:
    """Return the command that sets up a Node project, or None."""
    if "package.json" not in files.names:
        return None
    for name, command in (
        ("pnpm-lock.yaml", "pnpm install --frozen-lockfile"),
        ("yarn.lock", "yarn install --frozen-lockfile"),
        ("package-lock.json", "npm ci"),
    ):
        if name in files.names:
            return _SetupCommand(command=command, reason=name)
    return _SetupCommand(command="npm install", reason="package.json")


def _find_other_setup(files: _ProjectFiles) -> _SetupCommand | None:
    """Return the command that sets up a Rust or Go project, or None."""
    for name, command in (("Cargo.toml", "cargo fetch"), ("go.mod", "go mod download")):
        if name in files.names:
            return _SetupCommand(command=command, reason=name)
    return None


def _find_make_target(files: _ProjectFiles) -> str | None:
    """Return the Makefile's target that sets up the project, or None."""
    if "Makefile" not in files.names:
        return None
    targets = set(re.findall(r"^([A-Za-z0-9_.-]+)\s*:(?!=)", files.read_text("Makefile"), re.MULTILINE))
    return next((name for name in _MAKE_TARGETS if name in targets), None)


def _detect_carried_files(host: Host, root: str) -> list[str]:
    """Return patterns for the ignored files that a copy of the project needs."""
    result = git.run(host, root, "ls-files", "--others", "--ignored", "--exclude-standard", "--directory", "-z")
    if result.code != 0:
        return []
    names = result.out.decode("utf-8", "replace").split("\0")
    return sorted(glob.escape(name) for name in names if _is_carried(name))


def _is_carried(name: str) -> bool:
    """True when a program needs this ignored file to run."""
    if name.startswith(".mngr/") or "\ufffd" in name:
        return False
    return any(fnmatch.fnmatch(os.path.basename(name), pattern) for pattern in _CARRY_PATTERNS)


def _detect_program(files: _ProjectFiles) -> list[DetectedSetting]:
    """Return the setting for the project's command-line program, if there clearly is one."""
    name = get_text(files.get_table("project"), "name")
    for table_path in (("project", "scripts"), ("tool", "poetry", "scripts")):
        scripts = list(files.get_table(*table_path))
        if scripts:
            program = name if name in scripts else scripts[0]
            reason = f"[{'.'.join(table_path)}] in pyproject.toml"
            return [DetectedSetting(key="project.program", value=program, reason=reason)]
    binary = _find_node_program(files)
    if binary is None:
        return []
    return [DetectedSetting(key="project.program", value=binary, reason="bin in package.json")]


def _find_node_program(files: _ProjectFiles) -> str | None:
    """Return the program that a Node package installs, or None."""
    try:
        package = as_object(json.loads(files.read_text("package.json") or "{}"))
    except ValueError:
        return None
    binaries, name = package.get("bin"), package.get("name")
    if isinstance(binaries, dict) and binaries:
        return str(next(iter(binaries)))
    if isinstance(binaries, str) and isinstance(name, str):
        return name.rpartition("/")[2]  # without the scope of the package
    return None


def _detect_pytest(files: _ProjectFiles) -> list[DetectedSetting]:
    """Return the setting for the command that runs the tests, if the project uses pytest."""
    reason = _find_pytest_reason(files)
    if reason is None:
        return []
    command, note = _choose_pytest_command(files)
    return [DetectedSetting(key="project.pytest", value=command, reason=reason + note)]


def _choose_pytest_command(files: _ProjectFiles) -> tuple[str, str]:
    """Return the command that runs pytest, and a note on the tool or environment that it uses."""
    for tool in ("uv", "poetry"):
        if files.find_tool_reason(tool):
            return f"{tool} run pytest", f", with {tool}"
    if _is_venv_created(files):
        return ".venv/bin/python -m pytest", ", in .venv"
    return "python3 -m pytest", ""


def _detect_tutorial(root: str) -> list[DetectedSetting]:
    """Return the settings for the tutorial script and for its tests."""
    settings: list[DetectedSetting] = []
    test_dirs: tuple[str, ...] = _TUTORIAL_TESTS
    script = next((name for name in _TUTORIAL_PATHS if os.path.isfile(os.path.join(root, name))), None)
    if script:
        settings.append(DetectedSetting(key="tutorial.file", value=script, reason="it is there"))
        test_dirs = (*_TUTORIAL_TESTS, "tests")
    tests = next((name for name in test_dirs if os.path.isdir(os.path.join(root, name))), None)
    if tests:
        settings.append(DetectedSetting(key="tutorial.tests", value=tests, reason="it is there"))
    return settings


def _find_pytest_reason(files: _ProjectFiles) -> str | None:
    """Return what shows that the project uses pytest, or None."""
    if "pytest" in files.get_table("tool"):
        return "[tool.pytest] in pyproject.toml"
    config_file = files.find_first(("pytest.ini", "conftest.py"))
    if config_file:
        return config_file
    for folder in ("tests", "test"):
        for name in _list_names(os.path.join(files.root, folder)):
            if name == "conftest.py" or fnmatch.fnmatch(name, "test_*.py"):
                return f"{folder}/{name}"
    return None


def _is_venv_created(files: _ProjectFiles) -> bool:
    """True when the project's set-up creates `.venv`."""
    if _find_make_target(files):
        return ".venv" in files.read_text("Makefile")
    setup = _find_python_setup(files)
    return setup is not None and ".venv" in setup.command


def _list_names(folder: str) -> list[str]:
    """Return the sorted names in a folder, or none when it cannot be read."""
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


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
            default: str | list[str] = [] if kind is list else ""
            value = tomlkit.item(values.get(key, default)).as_string()
            comment = "" if key in values else "# "
            lines += [f"# {description}", f"{comment}{key.partition('.')[2]} = {value}"]
    return "\n".join(lines) + "\n"
