"""`tutorial init`: writes an example script and a test that cites it. It runs nothing of the project."""

from __future__ import annotations

import os
import re

from mngr.agents.context import Context
from mngr.agents.edit_settings import set_setting
from mngr.base import paths
from mngr.base.errors import MngrError
from mngr.base.model import Struct
from mngr.setup.init import detect_settings as project

_SCRIPT_TEMPLATE = """#!/bin/sh

# {program}, feature by feature. A block is a comment with the commands below it. Each block has a test that cites it.

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
    """The help names the program."""
    e2e.write_tutorial_block("""
    # what {program} can do
    {program} --help
    """)
    result = e2e.run("{program} --help", comment="what {program} can do")
    expect(result).to_succeed()
    expect(result.output).to_contain("{program}")
'''


class TutorialInitResult(Struct):
    """The files of the tutorial, and those of them that were written."""

    file: str
    tests: str
    written: list[str]


def init_tutorial(ctx: Context, program: str | None = None) -> TutorialInitResult:
    """Write the files and settings that do not exist yet. Existing ones stay unchanged."""
    root = paths.find_project_root(ctx.cwd) or ctx.cwd
    detected = {finding.key: finding.value for finding in project.detect_settings(ctx.local_host, root)}
    settings = ctx.load_project_settings(root)

    def choose(key: str, default: str = "") -> str:
        return str(settings.get(key) or detected.get(key) or default)

    program = program or choose("project.program")
    if not re.fullmatch(r"[\w./+-]+", program):
        raise MngrError(
            "mngr does not know which program the tutorial is about", "name it: mngr tutorial init --program NAME"
        )
    file = choose("tutorial.file", "tutorial.sh")
    tests = choose("tutorial.tests", "tests/e2e")
    written = _write_templates(ctx, root, program, file, tests)
    chosen = {"tutorial.file": file, "tutorial.tests": tests, "project.program": program}
    new_settings = {key: value for key, value in chosen.items() if settings.get(key) is None}
    for key, value in new_settings.items():
        set_setting(ctx, key, value, "project")
    if new_settings:
        written.append(paths.PROJECT_SETTINGS)
    return TutorialInitResult(file=file, tests=tests, written=written)


def _write_templates(ctx: Context, root: str, program: str, file: str, tests: str) -> list[str]:
    """Write the script and an example test where there are none, and return the names of the written files."""
    written: list[str] = []
    if not os.path.lexists(os.path.join(root, file)):
        _write_template(ctx, os.path.join(root, file), _SCRIPT_TEMPLATE, program, 0o755)
        written.append(file)
    tests_dir = os.path.join(root, tests)
    if not os.path.isdir(tests_dir) or not os.listdir(tests_dir):
        example = os.path.join(tests, "test_first_steps.py")
        _write_template(ctx, os.path.join(root, example), _TEST_TEMPLATE, program, 0o644)
        written.append(example)
    return written


def _write_template(ctx: Context, path: str, template: str, program: str, mode: int) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    ctx.local_host.write(path, template.replace("{program}", program).encode(), mode)
