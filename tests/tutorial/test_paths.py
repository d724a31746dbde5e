"""Tests where mngr looks for a tutorial and its tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mngr.agents.context import Context
from mngr.base.errors import MngrError
from mngr.tutorial.coverage.transcripts import read_run
from mngr.tutorial.paths import TutorialPaths


def test_a_tutorial_that_is_a_link_out_of_the_project_is_refused(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret\n")
    project = tmp_path / "project"
    (project / ".git").mkdir(parents=True)
    (project / "docs.sh").write_text("echo hello\n")
    context = Context(str(tmp_path / "home"), cwd=str(project))
    (project / "tutorial.sh").symlink_to("docs.sh")
    assert TutorialPaths(context).file == str(project / "tutorial.sh")
    (project / "tutorial.sh").unlink()
    (project / "tutorial.sh").symlink_to("../secret")
    with pytest.raises(MngrError, match="leads out of the project"):
        TutorialPaths(context)
    assert TutorialPaths(context, file=str(project / "tutorial.sh")).file  # The user named it.


@pytest.mark.parametrize("name", ["meta.json", "transcript.txt"])
def test_a_pipe_among_the_artifacts_of_a_test_is_reported(tmp_path: Path, name: str) -> None:
    directory = tmp_path / "run" / "test"
    directory.mkdir(parents=True)
    (directory / "meta.json").write_text("{}")
    (directory / "transcript.txt").write_text("$ true\n")
    (directory / name).unlink()
    os.mkfifo(directory / name)
    run = read_run(str(tmp_path), os.path.basename)
    assert [problem.message for problem in run.problems] == ["cannot be read: it is not a regular file"]
