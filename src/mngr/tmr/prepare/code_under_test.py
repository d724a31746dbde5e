"""The right code under test: the project's packages and programs must lead into the room, not to the user's checkout."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mngr.tmr.cleanroom.clean_rooms import CleanRoom
from mngr.tmr.cleanroom.test_run import PROBE_ARGS, is_own_source, make_paths_relative, parse_texts

_SETUP_HINT = "give each workspace its own environment: [project] setup in .mngr/settings.toml (mngr init proposes one), and --pytest that uses it"


def list_foreign_code(
    room: CleanRoom, pytest: Sequence[str], args: Sequence[str] = (), *, program: str | None = None
) -> list[str]:
    """What would not be the room's own code, each with the fix in words; empty when all is well. Raises MngrError."""
    facts = {"resolve": True, "program": program, "only": "resolve"}
    ran = room.run([*pytest, *PROBE_ARGS, *args], timeout=120.0, probe=facts)
    end = next((row for row in ran.probe_rows if row["row"] == "end"), None)
    if end is None:
        said = (ran.err.strip() or ran.out.strip() or f"exit code {ran.code}").splitlines()
        return [f"pytest could not begin: {said[-1]}"]
    return describe_foreign_code(
        make_paths_relative(end.get("resolved"), f"{room.inner_work_dir}/"), program, end.get("strays")
    )


def describe_foreign_code(resolved: Any, program: str | None = None, strays: Any = ()) -> list[str]:
    """What is wrong with where packages and programs lead, as a run or `collect` tells it, each with the fix in words."""
    if not isinstance(resolved, dict):
        return []
    found = [
        _describe_package(name, path)
        for name, path in parse_texts(resolved.get("packages")).items()
        if not is_own_source(path)
    ]
    scripts = resolved.get("scripts")
    for name, facts in scripts.items() if isinstance(scripts, dict) else ():
        if text := _describe_script(str(name), parse_texts(facts), program):
            found.append(text)
    if not found and isinstance(strays, list | tuple) and strays:
        found.append(f"{strays[0]} is imported, from the checkout that the workspace is a copy of; {_SETUP_HINT}")
    return found


def map_locations(resolved: Any) -> dict[str, str]:
    """Where each package and program leads: also those that a test does not import, but starts."""
    if not isinstance(resolved, dict):
        return {}
    scripts = resolved.get("scripts")
    found = {str(name): parse_texts(facts) for name, facts in (scripts.items() if isinstance(scripts, dict) else ())}
    ways = {name: facts.get("code") or facts.get("path") or "" for name, facts in found.items()}
    return {**{name: way for name, way in ways.items() if way}, **parse_texts(resolved.get("packages"))}


def _describe_package(name: str, path: str) -> str:
    if "site-packages" in path or "dist-packages" in path:
        return (
            f"`import {name}` takes an installed copy, {path}: changes in a workspace would not be tested; "
            "install the project editable (pip install -e .) in [project] setup"
        )
    return f"`import {name}` takes {path}, outside the workspace; {_SETUP_HINT}"


def _describe_script(name: str, facts: dict[str, str], program: str | None) -> str | None:
    at, code = facts.get("path", ""), facts.get("code", "")
    if not at:
        return None  # then the tests have a way of their own to it
    if code and not is_own_source(code):
        return f"the program {name} is {at} and runs {code}, not the workspace's code; {_SETUP_HINT}"
    if not code and name == program and at.startswith("/"):
        return f"the program {name} is {at}, outside the workspace; put the workspace's own first on the PATH of the tests, or {_SETUP_HINT}"
    return None
