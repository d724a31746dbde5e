"""Builds the command that sets up a project with make, npm, pnpm, yarn, cargo or go."""

from __future__ import annotations

import re

from mngr.host.protocol import Host
from mngr.setup.init.find_test_requirements import RequirementSource
from mngr.setup.init.project_files import ProjectFiles
from mngr.setup.init.python_setup import list_programs
from mngr.setup.init.setup_command_types import VENV_PYTHON, SetupCommand

_MAKE_TARGETS = ("setup", "bootstrap", "deps", "install-dev", "develop")
_ENVIRONMENT_TOOLS = ("uv", "poetry", "pdm", "pipenv", "conda", "hatch", "tox", "nox")


def find_make_setup(host: Host, files: ProjectFiles) -> SetupCommand | None:
    """Return the Makefile's target that sets up the project, or None when it needs a program that is not installed."""
    target = _find_make_target(files)
    if target is None or not list_programs(host, "make"):
        return None
    recipes = _read_recipes(files.read_text("Makefile"), target)
    tools = [tool for tool in _ENVIRONMENT_TOOLS if re.search(rf"(^|[\s@;&|-]){tool}\s", recipes, re.MULTILINE)]
    if len(list_programs(host, *tools)) < len(tools):
        return None
    command, python = f"make {target}", ""
    if ".venv" in files.read_text("Makefile") or {"uv", "poetry", "pdm"} & set(tools):
        python = VENV_PYTHON
    elif not tools and "venv" not in recipes and re.search(r"\bpip3?\b|\bpython3?\b", recipes):
        # The target installs into the active environment, which must not be the user's own.
        command = f"python3 -m venv .venv && . .venv/bin/activate && make {target}"
        python = VENV_PYTHON
    return SetupCommand(
        command=command,
        reason=f"the target {target} of the Makefile",
        files=("Makefile",),
        avoidable=(RequirementSource(name="make"),),
        python=python,
    )


def _find_make_target(files: ProjectFiles) -> str | None:
    """Return the Makefile's target that sets up the project, or None."""
    if "Makefile" not in files.names:
        return None
    targets = set(re.findall(r"^([A-Za-z0-9_.-]+)\s*:(?!=)", files.read_text("Makefile"), re.MULTILINE))
    return next((name for name in _MAKE_TARGETS if name in targets), None)


def _read_recipes(text: str, target: str) -> str:
    """Return the recipe of a target with the recipes of the targets that it depends on."""
    rules = {
        match[1]: (match[2].split(), match[3])
        for match in re.finditer(r"^([\w./-]+)\s*:(?!=)([^\n]*)\n((?:\t[^\n]*\n?)*)", text, re.MULTILINE)
    }
    recipes, waiting, visited = "", [target], set()
    while waiting:
        name = waiting.pop()
        if name in rules and name not in visited:
            visited.add(name)
            recipes += rules[name][1]
            waiting += rules[name][0]
    return recipes


def find_node_setup(files: ProjectFiles) -> SetupCommand | None:
    """Return the command that sets up a Node project, or None."""
    if "package.json" not in files.names:
        return None
    for name, command in (
        ("pnpm-lock.yaml", "pnpm install --frozen-lockfile"),
        ("yarn.lock", "yarn install --frozen-lockfile"),
        ("package-lock.json", "npm ci"),
    ):
        if name in files.names:
            return SetupCommand(command=command, reason=name)
    return SetupCommand(command="npm install", reason="package.json")


def find_compiled_setup(files: ProjectFiles) -> SetupCommand | None:
    """Return the command that sets up a Rust or Go project, or None."""
    for name, command in (("Cargo.toml", "cargo fetch"), ("go.mod", "go mod download")):
        if name in files.names:
            return SetupCommand(command=command, reason=name)
    return None
