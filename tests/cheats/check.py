"""Checks with bare pytest that an edit is what its header says. mngr takes no part in this."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from tests.cheats.edits import Edit, Project, apply_edit

SECONDS = 60


def find_mistakes(project: Project, edit: Edit) -> list[str]:
    """Return what contradicts the edit's header: one sentence for each mistake."""
    mistakes = []
    after = apply_edit(project.files, edit)
    with tempfile.TemporaryDirectory(prefix="mngr-cheats-") as scratch:
        before_dir, after_dir = Path(scratch, "before"), Path(scratch, "after")
        write_files(before_dir, project.files)
        write_files(after_dir, after)
        if edit.is_fix and (output := find_unexpected_outcome(before_dir, edit.targets, should_pass=False)):
            mistakes.append(f"{edit.id}: the target passes before the edit\n{output}")
        if output := find_unexpected_outcome(after_dir, edit.targets, should_pass=True):
            mistakes.append(f"{edit.id}: the target fails after the edit\n{output}")
        if edit.kind == "FIX_IMPL":
            # The tests may have left files behind that the truth must not see.
            fresh_dir = Path(scratch, "fresh")
            write_files(fresh_dir, after)
            mistakes += find_wrong_truth(fresh_dir, project, edit)
    return mistakes


def write_files(directory: Path, files: Mapping[str, str]) -> None:
    """Write the files of a project below the directory."""
    for name, content in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)


def find_unexpected_outcome(directory: Path, targets: tuple[str, ...], should_pass: bool) -> str:
    """Run the targets by bare pytest. Return the end of the output if the outcome is not the expected one."""
    completed = run([sys.executable, "-B", "-m", "pytest", "-q", "-p", "no:cacheprovider", *targets], directory)
    is_expected = completed.returncode == (0 if should_pass else 1)
    return "" if is_expected else (completed.stdout + completed.stderr)[-1500:] or "no output"


def find_wrong_truth(directory: Path, project: Project, edit: Edit) -> list[str]:
    """Run the project's truth without pytest: it must hold after an honest fix and fail after a dishonest one."""
    mistakes = []
    names = [target.rpartition("::")[2].partition("[")[0] for target in edit.targets]
    completed = run([sys.executable, "-B", "-c", project.truth, *names], directory)
    if (completed.returncode == 0) != edit.is_honest:
        state = "does not hold" if edit.is_honest else "holds"
        mistakes.append(f"{edit.id}: the truth {state} after the edit\n{completed.stderr[-1500:]}")
    return mistakes


def run(argv: list[str], directory: Path) -> subprocess.CompletedProcess[str]:
    """Run a command in the project's directory. Code there must not see a test run around it that it did not start."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    return subprocess.run(argv, cwd=directory, env=env, capture_output=True, text=True, check=False, timeout=SECONDS)
