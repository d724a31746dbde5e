"""`tutorial init`: writes an example script and a test that cites it, and checks that pytest can run it."""

from __future__ import annotations

import os
import re

from mngr.agents.context import Context
from mngr.agents.settings_files import set_setting
from mngr.base import paths, shell
from mngr.base.errors import MngrError, TimedOut
from mngr.base.model import Struct
from mngr.setup import init as project

_PYTEST_TIMEOUT = 60.0  # seconds for one call of the project's pytest
_SCRIPT_TEMPLATE = """#!/bin/sh

# {program}, feature by feature. A comment and the commands under it are a block; each block is cited by a test.

set -e

##################################################
# First steps
##################################################

# what {program} can do
{program} --help
"""
_TEST_TEMPLATE = '''"""The first steps of the tutorial."""

from __future__ import annotations

from mngr.e2e import E2eSession, expect


def test_help_succeeds(e2e: E2eSession) -> None:
    """Help is one word away."""
    e2e.write_tutorial_block("""
    # what {program} can do
    {program} --help
    """)
    result = e2e.run("{program} --help", comment="what {program} can do")
    expect(result).to_succeed()
    expect(result.output).to_contain("{program}")
'''


class TutorialInitResult(Struct):
    """The files that were written, and what is missing before the test can run."""

    file: str
    tests: str
    written: list[str]
    missing: str | None = None


def init_tutorial(ctx: Context, program: str | None = None) -> TutorialInitResult:
    """Write the files and settings that do not exist yet. Existing ones stay unchanged."""
    root = paths.find_project_root(ctx.cwd) or ctx.cwd
    detected = {finding.key: finding.value for finding in project.detect_settings(ctx.local_host, root)}
    settings = ctx.load_project_settings(root)
    program = program or settings.get("project.program") or detected.get("project.program")
    if not program or not re.fullmatch(r"[\w./+-]+", str(program)):
        raise MngrError("nothing says which program the tutorial is about", "name it: --program NAME")
    file = str(settings.get("tutorial.file") or detected.get("tutorial.file") or "tutorial.sh")
    tests = str(settings.get("tutorial.tests") or detected.get("tutorial.tests") or "tests/e2e")
    written: list[str] = []
    example = os.path.join(tests, "test_first_steps.py")
    for name, text, mode in ((file, _SCRIPT_TEMPLATE, 0o755), (example, _TEST_TEMPLATE, 0o644)):
        path = os.path.join(root, name)
        if os.path.lexists(path) or (
            name == example and os.path.isdir(os.path.dirname(path)) and os.listdir(os.path.dirname(path))
        ):
            continue
        os.makedirs(os.path.dirname(path), exist_ok=True)
        ctx.local_host.write(path, text.replace("{program}", str(program)).encode(), mode)
        written.append(name)
    for key, value in (("tutorial.file", file), ("tutorial.tests", tests), ("project.program", str(program))):
        if settings.get(key) is None:
            set_setting(ctx, key, value, "project")
            if paths.PROJECT_SETTINGS not in written:
                written.append(paths.PROJECT_SETTINGS)
    pytest = str(settings.get("project.pytest") or detected.get("project.pytest") or "python3 -m pytest")
    return TutorialInitResult(file=file, tests=tests, written=written, missing=_find_missing_fixture(root, pytest))


def _find_missing_fixture(root: str, pytest: str) -> str | None:
    """Return why the project's pytest does not find the fixture, or None when it does."""
    argv = ["sh", "-c", f'cd "$1" && {pytest} --fixtures -q -p no:cacheprovider', "fixtures", root]
    try:
        result = shell.run(argv, timeout=_PYTEST_TIMEOUT)
    except TimedOut:
        return f"{pytest} --fixtures did not end within {_PYTEST_TIMEOUT:g} s"
    if re.search(r"^e2e\b", result.text, re.MULTILINE):
        return None
    if result.code:
        return f"{pytest} cannot be run: {result.error_line}"
    return f"{pytest} does not know the fixture e2e; install mngr where that pytest is: pip install mngr"
