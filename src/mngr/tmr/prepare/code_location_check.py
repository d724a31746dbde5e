"""Checks that the project's packages and programs resolve into the clean room, not to the user's checkout."""

from __future__ import annotations

from collections.abc import Sequence

from mngr.tmr.runners.test_run import ProgramLocation, ResolvedCode, is_own_source

_SETUP_HINT = (
    "give each workspace its own environment with [project] setup in .mngr/settings.toml (`mngr init` proposes one), "
    "and make --pytest use that environment"
)


def describe_foreign_code(
    resolved: ResolvedCode, program: str | None = None, checkout_modules: Sequence[str] = ()
) -> list[str]:
    """Return a description and a fix for each package or program that resolves outside the clean room.

    `checkout_modules` are the files that were imported from the user's checkout.
    """
    problems = [_describe_package(name, path) for name, path in resolved.packages.items() if not is_own_source(path)]
    for name, location in resolved.scripts.items():
        problem = _describe_script(name, location, program)
        if problem is not None:
            problems.append(problem)
    if checkout_modules and not problems:
        first = checkout_modules[0]
        problems.append(f"the tests import {first} from your checkout, not from their own workspace; {_SETUP_HINT}")
    return problems


def map_locations(resolved: ResolvedCode) -> dict[str, str]:
    """Return the file of each package and program, including programs that a test starts without importing them."""
    script_paths = {name: location.code or location.path for name, location in resolved.scripts.items()}
    found_scripts = {name: path for name, path in script_paths.items() if path}
    return {**found_scripts, **resolved.packages}


def _describe_package(name: str, path: str) -> str:
    if "site-packages" in path or "dist-packages" in path:
        return (
            f"`import {name}` loads an installed copy, {path}, so the tests would not see a change in the workspace; "
            "install the project editable (pip install -e .) in [project] setup"
        )
    return f"`import {name}` loads {path}, which is outside the workspace; {_SETUP_HINT}"


def _describe_script(name: str, location: ProgramLocation, program: str | None) -> str | None:
    path, code = location.path, location.code
    if not path:
        return None  # the tests find the program in another way than PATH
    if code and not is_own_source(code):
        return f"the program {name} ({path}) runs {code}, not the workspace's code; {_SETUP_HINT}"
    if not code and name == program and path.startswith("/"):
        return (
            f"the program {name} is {path}, which is outside the workspace; "
            f"put the workspace's own {name} first on the PATH of the tests, or {_SETUP_HINT}"
        )
    return None
