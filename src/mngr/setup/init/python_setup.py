"""Builds the command that sets up a Python project: with its own tool, or with venv and pip."""

from __future__ import annotations

import re
from collections.abc import Iterable

from mngr.base.shell import join
from mngr.base.untrusted_json import get_text
from mngr.host import git
from mngr.host.protocol import Host
from mngr.setup.init.find_test_requirements import (
    DEV_NAMES,
    TEST_NAMES,
    RequirementSource,
    find_plain_requirements,
    list_named_sources,
    list_runtime_requirements,
    normalize_name,
)
from mngr.setup.init.find_tests import FoundTests
from mngr.setup.init.project_files import ProjectFiles
from mngr.setup.init.pytest_needs import NeededPackage, list_packages_for_tests
from mngr.setup.init.setup_command_types import VENV_PYTHON, Adjustments, SetupCommand
from mngr.setup.init.task_runners import list_task_runner_sources

_PACKAGE_SOURCE = RequirementSource(name="the package itself")
_GROUPS_NEED = "pip>=25.1"  # the first pip that reads dependency groups
_TOOL_COMMANDS = {
    "uv": ("uv sync", "uv pip install"),
    "poetry": ("POETRY_VIRTUALENVS_IN_PROJECT=1 poetry install", "poetry run pip install"),
    "pdm": ("PDM_VENV_IN_PROJECT=1 pdm install", "pdm run python -m ensurepip && pdm run python -m pip install"),
}
# The options of each tool that install an extra or a group, where they are not --extra and --group.
_EXTRA_OPTIONS = {"poetry": "--extras", "pdm": "-G"}
_GROUP_OPTIONS = {"poetry": "--with", "pdm": "-G"}
_FIND_PROGRAMS = 'for name; do if command -v "$name" >/dev/null 2>&1; then echo "$name"; fi; done'


def find_python_setup(
    host: Host, files: ProjectFiles, tests: FoundTests, adjustments: Adjustments
) -> SetupCommand | None:
    """Return the command that sets up a Python project, or None when there is no Python project."""
    tool, evidence = _find_tool(files)
    notes: list[str] = []
    if tool and tool not in adjustments.avoided:
        if list_programs(host, tool):
            return _build_tool_setup(files, tests, adjustments, tool, evidence)
        if evidence.endswith(".lock"):
            notes.append(
                f"the project has {evidence}, but {tool} is not installed here. Set-up uses pip, which does not read {evidence}. "
                f"To use it, install {tool} and run: mngr init --force"
            )
    chosen = _choose_sources(files, adjustments)
    if not (chosen or files.is_python) and not (tests.files and _needs_packages(host, files, tests, adjustments)):
        return None
    setup = _build_pip_setup(host, files, tests, adjustments, chosen)
    return setup.replace(notes=(*notes, *setup.notes))


def _needs_packages(host: Host, files: ProjectFiles, tests: FoundTests, adjustments: Adjustments) -> bool:
    """True when tests without any package or requirements need more than the pytest that the host's Python has."""
    names = [need.package for need in _list_missing(files, tests, adjustments, [])]
    return names != ["pytest"] or bool(adjustments.added) or host.run(["python3", "-c", "import pytest"]).code != 0


def list_programs(host: Host, *names: str) -> list[str]:
    """Return the programs that are installed on the host."""
    return host.run(["sh", "-c", _FIND_PROGRAMS, "find", *names]).text.split()


def list_declared_requirements(files: ProjectFiles) -> list[str]:
    """Return every requirement that the project names anywhere, those for tests first."""
    sources = [*list_named_sources(files, TEST_NAMES), *list_task_runner_sources(files)]
    sources += list_named_sources(files, DEV_NAMES)
    plain = find_plain_requirements(files)
    listed = [text for source in [*sources, *([plain] if plain else ())] for text in source.requirements]
    return [*listed, *list_runtime_requirements(files)]


def _find_tool(files: ProjectFiles) -> tuple[str, str]:
    """Return the tool that manages the project's environment and what shows it, or two empty texts."""
    for tool in _TOOL_COMMANDS:
        if f"{tool}.lock" in files.names:
            return tool, f"{tool}.lock"
    for tool in ("uv", "poetry"):
        if tool in files.get_table("tool"):
            return tool, f"[tool.{tool}] in pyproject.toml"
    return "", ""


def _build_tool_setup(
    files: ProjectFiles, tests: FoundTests, adjustments: Adjustments, tool: str, evidence: str
) -> SetupCommand:
    """Return the command of a tool that creates `.venv` itself, with the extras and groups for tests."""
    sources = [source for source in list_named_sources(files, TEST_NAMES) if source.name not in adjustments.avoided]
    command, install = _TOOL_COMMANDS[tool]
    options: list[str] = []
    for source in sources:
        if source.extra:
            options += [_EXTRA_OPTIONS.get(tool, "--extra"), source.extra]
        elif source.args[:1] == ("--group",):
            options += [_GROUP_OPTIONS.get(tool, "--group"), source.args[1]]
    declared = [*sources, *list_named_sources(files, DEV_NAMES)]
    missing = _list_missing(files, tests, adjustments, declared) if files.pyproject else list(adjustments.added)
    words = [missing_package.package for missing_package in missing]
    steps = [f"{command} {join(options)}".strip(), *([f"{install} {join(words)}"] if words else ())]
    prefix = f"cd {join([files.folder])} && " if files.folder else ""
    return SetupCommand(
        command=prefix + " && ".join(steps),
        reason=evidence,
        notes=tuple(_describe_missing(missing)),
        avoidable=(RequirementSource(name=tool),),
        python=files.get_path(VENV_PYTHON),
    )


def _choose_sources(files: ProjectFiles, adjustments: Adjustments) -> list[RequirementSource]:
    """Return the sources of requirements for the tests. Those for development count if no other brings pytest."""

    def allow(sources: Iterable[RequirementSource]) -> list[RequirementSource]:
        return [source for source in sources if source.name not in adjustments.avoided]

    chosen = allow([*list_named_sources(files, TEST_NAMES), *list_task_runner_sources(files)])
    if not _brings_pytest(chosen):
        chosen += allow(list_named_sources(files, DEV_NAMES))
    plain = find_plain_requirements(files)
    if plain and (not files.is_python or (not _brings_pytest(chosen) and _brings_pytest([plain]))):
        chosen += allow([plain])
    unique: dict[tuple[str, tuple[str, ...]], RequirementSource] = {}
    for source in chosen:
        unique.setdefault((normalize_name(source.extra), source.args), source)
    return list(unique.values())


def _brings_pytest(sources: Iterable[RequirementSource]) -> bool:
    names = {normalize_name(requirement) for source in sources for requirement in source.requirements}
    return any(name == "pytest" or name.startswith("pytest-") for name in names)


def _build_pip_setup(
    host: Host, files: ProjectFiles, tests: FoundTests, adjustments: Adjustments, chosen: list[RequirementSource]
) -> SetupCommand:
    """Return the command that creates `.venv` and installs the package and its requirements there with pip."""
    words: list[str] = []
    installs_package = (
        files.is_python and _PACKAGE_SOURCE.name not in adjustments.avoided and bool(_is_installable(files))
    )
    if installs_package:
        extras = ",".join(dict.fromkeys(source.extra for source in chosen if source.extra))
        folder = f"./{files.folder}" if files.folder else "."
        words += ["-e", f"{folder}[{extras}]" if extras else folder]
    else:
        words += list_runtime_requirements(files)
    for source in chosen:
        words += [word for word in source.args if word.startswith("-") or word not in words]
    missing = _list_missing(files, tests, adjustments, chosen)
    words += [missing_package.package for missing_package in missing]
    steps = [f"{_choose_python(host, files)} -m venv .venv"]
    if git.run(host, files.root, "check-ignore", "-q", ".venv/pyvenv.cfg", git_command=git.SAFE_GIT).code:
        steps.append("echo '*' >.venv/.gitignore")  # Otherwise git would list every file of the environment.
    if "--group" in words:
        steps.append(f".venv/bin/pip install {join([_GROUPS_NEED])}")
    if words:
        steps.append(f".venv/bin/pip install {join(words)}")
    package_file = files.find_first(("pyproject.toml", "setup.py", "setup.cfg"))
    reasons = [
        *([files.get_path(package_file)] if package_file else ()),
        *(source.name.partition("#")[0] for source in chosen),
    ]
    return SetupCommand(
        command=" && ".join(steps),
        reason=", ".join(dict.fromkeys(reasons)) or tests.reason,
        files=tuple(source.file for source in chosen if source.file),
        notes=tuple(_describe_missing(missing)),
        avoidable=(*_list_optional(missing), *reversed(chosen), *([_PACKAGE_SOURCE] if installs_package else ())),
        python=VENV_PYTHON,
        installs_package=installs_package,
    )


def _is_installable(files: ProjectFiles) -> bool:
    """True when pip can install the folder as a package."""
    if files.find_first(("setup.py",)) or "build-system" in files.pyproject or "project" in files.pyproject:
        return files.get_table("tool", "poetry").get("package-mode") is not False
    return files.read_ini("setup.cfg").has_section("metadata")


def _list_missing(
    files: ProjectFiles, tests: FoundTests, adjustments: Adjustments, chosen: list[RequirementSource]
) -> list[NeededPackage]:
    """Return the packages that the tests need and that none of the chosen sources brings; pytest is one of them."""
    runtime = list_runtime_requirements(files)
    known = {normalize_name(text) for source in chosen for text in source.requirements} | {
        normalize_name(text) for text in runtime
    }
    known.add(normalize_name(get_text(files.get_table("project"), "name") or "-"))
    needs = [*adjustments.added, *list_packages_for_tests(files, tests.files)]
    if tests.reason and not _brings_pytest(chosen):
        needs.append(NeededPackage(package="pytest", reason="nothing in the project installs it"))
    missing: dict[str, NeededPackage] = {}
    for need in needs:
        name = normalize_name(need.package)
        is_known = name in known and need not in adjustments.added
        if not is_known and need.package not in adjustments.avoided:
            missing.setdefault(name, need)
    return list(missing.values())


def _list_optional(missing: Iterable[NeededPackage]) -> list[RequirementSource]:
    """Return the missing packages, which the project did not ask for, as sources."""
    packages = [need.package for need in missing if need.package != "pytest"]
    return [RequirementSource(name=package, args=(package,), requirements=(package,)) for package in packages]


def _describe_missing(missing: Iterable[NeededPackage]) -> list[str]:
    return [f"Set-up also installs {need.package}: {need.reason}." for need in missing]


def _choose_python(host: Host, files: ProjectFiles) -> str:
    """Return the interpreter for the environment: python3, or another one that the project requires."""
    required = get_text(files.get_table("project"), "requires-python")
    required = required or get_text(files.get_table("tool", "poetry", "dependencies"), "python")
    lowest = re.search(r"(?:>=|\^|~=?)\s*3\.(\d+)", required)
    limit = re.search(r"<\s*3\.(\d+)", required)
    minimum, end = int(lowest[1]) if lowest else 0, int(limit[1]) if limit else 99
    shown = host.run(["python3", "-c", "import sys; print(sys.version_info[1])"]).text
    if not shown.isdigit() or minimum <= int(shown) < end:
        return "python3"
    candidates = [f"python3.{minor}" for minor in range(min(end, 30) - 1, minimum - 1, -1)]
    usable = [name for name in list_programs(host, *candidates) if host.run([name, "-c", "import venv"]).code == 0]
    return usable[0] if usable else "python3"
