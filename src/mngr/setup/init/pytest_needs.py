"""Knows which package brings an option, a setting or a module that tests use without declaring it."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable

from mngr.base.model import Struct
from mngr.base.untrusted_json import as_list
from mngr.setup.init.known_test_packages import (
    COMMON_MODULES,
    MARKER_PLUGINS,
    OPTION_PLUGINS,
    SETTING_PLUGINS,
    TEST_MODULES,
)
from mngr.setup.init.project_files import ProjectFiles

_MODULE_PACKAGES = {**COMMON_MODULES, **TEST_MODULES}
_TOP_IMPORT = re.compile(r"^(?:import|from)\s+([A-Za-z_]\w*)", re.MULTILINE)


class NeededPackage(Struct):
    """A package that the tests need and the project does not declare."""

    package: str
    reason: str


def find_package(module: str, declared: Iterable[str]) -> str | None:
    """Return the requirement that brings a module: one that the project declares somewhere, or a common one."""
    wanted = module.replace("_", "-").lower()
    known = _MODULE_PACKAGES.get(module)
    names = {wanted, f"python-{wanted}", f"py{wanted}", *([known.lower()] if known else ())}
    for requirement in declared:
        name = re.sub(r"[-_.]+", "-", re.split(r"[^A-Za-z0-9._-]", requirement, maxsplit=1)[0]).lower()
        if name in names:
            return requirement
    return known


def list_packages_for_tests(files: ProjectFiles, test_files: Iterable[str]) -> list[NeededPackage]:
    """Return the packages that pytest's settings and the imports of the test files need."""
    settings = read_pytest_settings(files)
    needs = [
        NeededPackage(package=package, reason=f"pytest's option {option}")
        for option, package in _list_option_plugins(settings.get("addopts"))
    ]
    needs += [
        NeededPackage(package=package, reason=f"pytest's setting {key}")
        for key, package in SETTING_PLUGINS.items()
        if key in settings
    ]
    plugins = settings.get("required_plugins")
    for text in plugins.split() if isinstance(plugins, str) else as_list(plugins):
        needs.append(NeededPackage(package=str(text), reason="pytest's setting required_plugins"))
    for path in test_files:
        needs += [
            NeededPackage(package=_MODULE_PACKAGES[module], reason=f"{path} imports {module}")
            for module in _TOP_IMPORT.findall(files.replace(folder="").read_text(path))
            if module in TEST_MODULES and not _is_local(files, module, path)
        ]
    return needs


def _is_local(files: ProjectFiles, module: str, path: str) -> bool:
    """True when a module lies in the project, beside the test file or at the top."""
    folders = (os.path.join(files.root, os.path.dirname(path)), os.path.join(files.root, files.folder), files.root)
    return any(
        os.path.exists(os.path.join(folder, name))
        for folder in folders
        for name in (f"{module}.py", module, f"src/{module}")
    )


def read_pytest_settings(files: ProjectFiles) -> dict[str, object]:
    """Return pytest's settings from the first file that has them, as pytest chooses it."""
    for name in ("pytest.ini", ".pytest.ini"):
        if name in files.names:
            return _read_section(files, name, "pytest")
    tables = (files.get_table("tool", "pytest", "ini_options"), files.get_table("tool", "pytest"))
    for table in tables:
        if table:
            return table
    return _read_section(files, "tox.ini", "pytest") or _read_section(files, "setup.cfg", "tool:pytest")


def _read_section(files: ProjectFiles, name: str, section: str) -> dict[str, object]:
    ini = files.read_ini(name)
    return dict(ini.items(section)) if ini.has_section(section) else {}


def _list_option_plugins(options: object) -> list[tuple[str, str]]:
    """Return the options that belong to a plugin, each with the plugin."""
    try:
        words = (
            shlex.split(options, comments=True)
            if isinstance(options, str)
            else [str(word) for word in as_list(options)]
        )
    except ValueError:
        words = str(options).split()
    found: list[tuple[str, str]] = []
    for word in words:
        option = word.partition("=")[0]
        start = "-n" if re.match(r"-n(\d|auto|logical|$)", option) else option
        package = next((package for key, package in OPTION_PLUGINS.items() if _has_prefix(start, key)), None)
        if package is not None:
            found.append((option, package))
    return found


def _has_prefix(option: str, start: str) -> bool:
    return option == start or option.startswith(f"{start}-")


def list_missing_packages(output: str, declared: Iterable[str], files: ProjectFiles) -> list[NeededPackage]:
    """Return the packages whose absence the output of a failed collection shows."""
    declared = list(declared)
    missing: list[NeededPackage] = []
    for module in re.findall(r"No module named '?([A-Za-z_]\w*)", output):
        package = find_package(module, declared)
        if package is not None and not _is_local(files, module, ""):
            missing.append(NeededPackage(package=package, reason=f"the tests import {module}"))
    for words in re.findall(r"unrecognized arguments: (.*)", output):
        missing += [
            NeededPackage(package=package, reason=f"pytest's option {option}")
            for option, package in _list_option_plugins(words)
        ]
    for names in re.findall(r"Missing required plugins: (.*)", output):
        missing += [
            NeededPackage(package=name.strip(), reason="pytest's setting required_plugins") for name in names.split(",")
        ]
    for marker in re.findall(r"'(\w+)' not found in `markers`", output):
        if marker in MARKER_PLUGINS:
            missing.append(NeededPackage(package=MARKER_PLUGINS[marker], reason=f"the marker {marker}"))
    if "can not be found in the hookspec" in output:
        missing.append(NeededPackage(package="pytest<9", reason="the tests use a hook that newer versions do not have"))
    for key in re.findall(r"Unknown config option: (\w+)", output):
        if key in SETTING_PLUGINS:
            missing.append(NeededPackage(package=SETTING_PLUGINS[key], reason=f"pytest's setting {key}"))
    return list(dict.fromkeys(missing))
