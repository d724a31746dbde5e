"""Checks that the project's packages and programs resolve into the clean room, not to the user's checkout."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mngr.tmr.cleanroom.clean_rooms import CleanRoom
from mngr.tmr.cleanroom.test_run import PROBE_ARGS, is_own_source, make_paths_relative, parse_texts

_SETUP_HINT = "give each workspace its own environment: [project] setup in .mngr/settings.toml (mngr init proposes one), and --pytest that uses it"


def list_foreign_code(
    room: CleanRoom, pytest: Sequence[str], args: Sequence[str] = (), *, program: str | None = None
) -> list[str]:
    """Return a description and a fix for each package or program that is not the clean room's own code.

    The list is empty when everything is correct. Raises MngrError when the clean room fails.
    """
    probe_request = {"resolve": True, "program": program, "only": "resolve"}
    outcome = room.run([*pytest, *PROBE_ARGS, *args], timeout=120.0, probe=probe_request)
    end = next((row for row in outcome.probe_rows if row["row"] == "end"), None)
    if end is None:
        output_lines = (outcome.err.strip() or outcome.out.strip() or f"exit code {outcome.code}").splitlines()
        return [f"pytest could not begin: {output_lines[-1]}"]
    return describe_foreign_code(
        make_paths_relative(end.get("resolved"), f"{room.inner_work_dir}/"), program, end.get("strays")
    )


def describe_foreign_code(resolved: Any, program: str | None = None, strays: Any = ()) -> list[str]:
    """Return a description and a fix for each package or program that resolves outside the clean room.

    `resolved` and `strays` come from the probe's report of a run or of `collect`.
    """
    if not isinstance(resolved, dict):
        return []
    problems = [
        _describe_package(name, path)
        for name, path in parse_texts(resolved.get("packages")).items()
        if not is_own_source(path)
    ]
    scripts = resolved.get("scripts")
    for name, script_facts in scripts.items() if isinstance(scripts, dict) else ():
        if problem := _describe_script(str(name), parse_texts(script_facts), program):
            problems.append(problem)
    if not problems and isinstance(strays, list | tuple) and strays:
        problems.append(f"{strays[0]} is imported, from the checkout that the workspace is a copy of; {_SETUP_HINT}")
    return problems


def map_locations(resolved: Any) -> dict[str, str]:
    """Return the file of each package and program, including programs that a test starts without importing them."""
    if not isinstance(resolved, dict):
        return {}
    scripts = resolved.get("scripts")
    script_facts = {
        str(name): parse_texts(facts) for name, facts in (scripts.items() if isinstance(scripts, dict) else ())
    }
    script_paths = {name: facts.get("code") or facts.get("path") or "" for name, facts in script_facts.items()}
    return {**{name: path for name, path in script_paths.items() if path}, **parse_texts(resolved.get("packages"))}


def _describe_package(name: str, path: str) -> str:
    if "site-packages" in path or "dist-packages" in path:
        return (
            f"`import {name}` takes an installed copy, {path}: changes in a workspace would not be tested; "
            "install the project editable (pip install -e .) in [project] setup"
        )
    return f"`import {name}` takes {path}, outside the workspace; {_SETUP_HINT}"


def _describe_script(name: str, facts: dict[str, str], program: str | None) -> str | None:
    path, code = facts.get("path", ""), facts.get("code", "")
    if not path:
        return None  # the tests find the program in another way than PATH
    if code and not is_own_source(code):
        return f"the program {name} is {path} and runs {code}, not the workspace's code; {_SETUP_HINT}"
    if not code and name == program and path.startswith("/"):
        return f"the program {name} is {path}, outside the workspace; put the workspace's own first on the PATH of the tests, or {_SETUP_HINT}"
    return None
