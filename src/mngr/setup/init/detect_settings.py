"""Decides the settings of a project from its files."""

from __future__ import annotations

import fnmatch
import glob
import os

from mngr.agents.workdir.project_setup import LOCK_FILES
from mngr.base.model import Struct
from mngr.base.shell import join
from mngr.base.untrusted_json import as_object, get_text, parse_json
from mngr.host import git
from mngr.host.protocol import Host
from mngr.setup.init.find_test_requirements import RequirementSource
from mngr.setup.init.find_tests import FoundTests, find_tests
from mngr.setup.init.non_python_setup import find_compiled_setup, find_make_setup, find_node_setup
from mngr.setup.init.project_files import ProjectFiles, find_python_project, has_modules, read_project
from mngr.setup.init.python_setup import find_python_setup
from mngr.setup.init.setup_command_types import NO_ADJUSTMENTS, Adjustments, SetupCommand

# Names of ignored files that a program needs to run: its local settings, but not build results.
_CARRY_PATTERNS = (
    ".env",
    ".env.*",
    ".envrc",
    ".dev.vars",
    ".npmrc",
    "local.settings*",
    "settings.local*",
    "config.local*",
    "local.properties",
    "*.local.json",
    "*.local.toml",
    "*.local.yaml",
    "*.local.yml",
    "local_settings.py",
)
_TUTORIAL_PATHS = ("tutorial.sh", "docs/tutorial.sh", "examples/tutorial.sh")
_TUTORIAL_TESTS = ("tests/e2e", "test/e2e", "e2e")


class DetectedSetting(Struct):
    """A setting and the reason for it."""

    key: str
    value: str | list[str]
    reason: str


class Detection(Struct):
    """The settings that follow from the files of a project."""

    settings: list[DetectedSetting]
    notes: list[str] = []  # sentences that a person should read
    avoidable: list[RequirementSource] = []  # what set-up may do without if it fails, the least important first
    has_tests: bool = False


def detect_settings(host: Host, root: str) -> list[DetectedSetting]:
    """Return the settings that follow from the files of a project."""
    return detect_project(host, root).settings


def detect_project(host: Host, root: str, adjustments: Adjustments = NO_ADJUSTMENTS) -> Detection:
    """Return the settings that follow from the files of a project and from what their trial has shown."""
    files, python_files = read_project(root), find_python_project(root)
    tests = find_tests(python_files)
    setups = _list_setups(host, files, python_files, tests, adjustments)
    carried = _detect_carried_files(host, root)
    settings = _describe_setups(setups)
    if carried:
        settings.append(
            DetectedSetting(key="project.carry", value=carried, reason="ignored by git, and the file exists")
        )
    settings += [*_detect_program(python_files), *_detect_pytest(python_files, tests, setups), *_detect_tutorial(root)]
    return Detection(
        settings=settings,
        notes=[note for setup in setups for note in setup.notes],
        avoidable=[source for setup in setups for source in setup.avoidable],
        has_tests=bool(tests.reason),
    )


def _list_setups(
    host: Host, files: ProjectFiles, python_files: ProjectFiles, tests: FoundTests, adjustments: Adjustments
) -> list[SetupCommand]:
    """Return the set-up commands: the Makefile's target, or one command for each language of the project."""
    make_setup = None if "make" in adjustments.avoided else find_make_setup(host, files)
    if make_setup is not None:
        packages = [missing.package for missing in adjustments.added]
        if packages and make_setup.python:
            command = f"{make_setup.command} && {make_setup.python} -m pip install {join(packages)}"
            make_setup = make_setup.replace(command=command)
        return [make_setup]
    candidates = [
        find_python_setup(host, python_files, tests, adjustments),
        find_node_setup(files),
        find_compiled_setup(files),
    ]
    return [setup for setup in candidates if setup is not None]


def _describe_setups(setups: list[SetupCommand]) -> list[DetectedSetting]:
    """Return the command that sets up the project, and the files that decide whether it must run again."""
    if not setups:
        return []
    command = " && ".join(setup.command for setup in setups)
    reason = ", ".join(setup.reason for setup in setups)
    settings = [DetectedSetting(key="project.setup", value=command, reason=reason)]
    extra_locks = sorted({name for setup in setups for name in setup.files if name not in LOCK_FILES})
    if extra_locks:
        reason = "a change in these files runs set-up again"
        settings.append(DetectedSetting(key="project.lock", value=extra_locks, reason=reason))
    return settings


def _detect_carried_files(host: Host, root: str) -> list[str]:
    """Return patterns for the ignored files that a copy of the project needs."""
    result = git.run(
        host,
        root,
        "ls-files",
        "--others",
        "--ignored",
        "--exclude-standard",
        "--directory",
        "-z",
        git_command=git.SAFE_GIT,
    )
    if result.code != 0:
        return []
    names = result.out.decode("utf-8", "replace").split("\0")
    return sorted(glob.escape(name) for name in names if _is_carried(name))


def _is_carried(name: str) -> bool:
    """True when a program needs this ignored file to run."""
    if name.startswith(".mngr/") or "\ufffd" in name:
        return False
    return any(fnmatch.fnmatch(os.path.basename(name), pattern) for pattern in _CARRY_PATTERNS)


def _detect_program(files: ProjectFiles) -> list[DetectedSetting]:
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


def _find_node_program(files: ProjectFiles) -> str | None:
    """Return the program that a Node package installs, or None."""
    try:
        package = as_object(parse_json(files.read_text("package.json") or "{}"))
    except ValueError:
        return None
    binaries, name = package.get("bin"), package.get("name")
    if isinstance(binaries, dict) and binaries:
        return str(next(iter(binaries)))
    if isinstance(binaries, str) and isinstance(name, str):
        return name.rpartition("/")[2]  # without the scope of the package
    return None


def _detect_pytest(files: ProjectFiles, tests: FoundTests, setups: list[SetupCommand]) -> list[DetectedSetting]:
    """Return the setting for the command that runs the tests, if the project has Python tests."""
    if not tests.reason:
        return []
    setup = next((setup for setup in setups if setup.python), None)
    words = [setup.python if setup else "python3", "-m", "pytest"]
    if files.folder and files.is_python:
        config_file = files.find_first(("pytest.ini", "pyproject.toml", "tox.ini", "setup.cfg"))
        words += ["-c", files.get_path(config_file)] if config_file else []
    if not (setup and setup.installs_package) and has_modules(files, "src"):
        words += ["-o", f"pythonpath={files.get_path('src')}"]
    if tests.pattern:
        words += ["-o", f"python_files={tests.pattern}"]
    note = ", in .venv" if setup else ""
    return [DetectedSetting(key="project.pytest", value=join(words), reason=tests.reason + note)]


def _detect_tutorial(root: str) -> list[DetectedSetting]:
    """Return the settings for the tutorial script and for its tests."""
    settings: list[DetectedSetting] = []
    test_dirs: tuple[str, ...] = _TUTORIAL_TESTS
    script = next((name for name in _TUTORIAL_PATHS if os.path.isfile(os.path.join(root, name))), None)
    if script:
        settings.append(DetectedSetting(key="tutorial.file", value=script, reason="it exists"))
        test_dirs = (*_TUTORIAL_TESTS, "tests")
    tests = next((name for name in test_dirs if os.path.isdir(os.path.join(root, name))), None)
    if tests:
        settings.append(DetectedSetting(key="tutorial.tests", value=tests, reason="it exists"))
    return settings
