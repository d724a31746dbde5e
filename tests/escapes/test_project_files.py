"""Attempts of a cloned repository with files and links below its `.mngr`, which mngr reads and writes."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.escapes.attempt import Target, attack, for_each_person

_RUN = 'tmr run --dry-run --isolation off --name x -S project.pytest="python3 -m pytest"'
_AGENT = (
    "create foo --transfer mirror -- sh -c 'echo x > $MNGR_OUTPUT_DIR/x; sleep 1000'",
    "wait foo --state RUNNING",
    "pull foo",
)
# The plan of a foreign run. `mngr tmr resume` would run the program of its tests without a sandbox.
_PLAN = (
    '{"v": 1, "kind": "tmr", "base": "%s", "pytest": ["touch", "%s"], "isolation": "off", "name": "evil", "tests": []}'
)
_FOREIGN_RUN = f"""mkdir -p .mngr/runs/evil/tasks
printf '*\\n' > .mngr/runs/.gitignore
printf '{_PLAN}' "$(git rev-parse HEAD)" "$MARK" > .mngr/runs/evil/run.json
git clone -q --bare . .mngr/runs/evil/repo.git
: > .mngr/runs/evil/journal.jsonl
"""


@dataclass(frozen=True)
class ProjectFilesAttempt:
    """Files in a repository that the user has cloned, and the commands that the user runs there."""

    name: str
    plant: str  # a shell program that runs in the repository, with the variables of an Attempt
    verbs: tuple[str, ...]


ATTEMPTS = [
    ProjectFilesAttempt("a link in place of the ignore file of the runs", 'mkdir -p .mngr/runs; ln -s "$NEW" .mngr/runs/.gitignore\n', (_RUN,)),
    ProjectFilesAttempt("a link in place of the directory of the runs", 'mkdir .mngr; ln -s "$TREASURE" .mngr/runs\n', (_RUN, "tmr list", "tmr memory forget")),
    ProjectFilesAttempt("a link in place of the directory .mngr", 'ln -s "$TREASURE" .mngr\n', (_RUN, *_AGENT, "tmr memory forget")),
    ProjectFilesAttempt("a link in place of the ignore file of the outputs", 'mkdir -p .mngr/outputs; ln -s "$NEW" .mngr/outputs/.gitignore\n', _AGENT),
    ProjectFilesAttempt("a link in place of the new file of the history", 'mkdir -p .mngr/runs; printf \'{"v": 1, "rows": []}\' > .mngr/runs/memory.json; ln -s "$PRECIOUS" .mngr/runs/memory.json.new\n', ("tmr memory forget", "tmr memory list")),
    ProjectFilesAttempt("a link in place of the lock of the history", 'mkdir -p .mngr/runs; printf \'{"v": 1, "rows": []}\' > .mngr/runs/memory.json; ln -s "$NEW" .mngr/runs/memory.json.lock\n', ("tmr memory forget",)),
    ProjectFilesAttempt("a run in the repository names its own program for the tests", _FOREIGN_RUN, ("tmr resume evil", "tmr retry evil", "tmr integrate evil", "tmr redo evil -m x")),
    ProjectFilesAttempt("the report of a run in the repository is a link", f'{_FOREIGN_RUN}ln -s "$TREASURE" .mngr/runs/evil/report\n', ("tmr report evil", "tmr status evil")),
    ProjectFilesAttempt("a hook in a run of the repository", f'{_FOREIGN_RUN}printf "#!/bin/sh\\ntouch $MARK\\n" > .mngr/runs/evil/repo.git/hooks/reference-transaction; chmod +x .mngr/runs/evil/repo.git/hooks/*\n', ("tmr integrate evil", "tmr changes evil", "tmr clean evil", "tmr stop evil")),
]  # fmt: skip


def plant(target: Target, attempt: ProjectFilesAttempt) -> None:
    """Write the hostile files into the user's repository."""
    repo = target.user.repo
    subprocess.run(
        ["sh", "-ec", target.build_script(attempt.plant)], cwd=repo, env={**os.environ, **target.variables}, check=True
    )
    for path in (repo / ".mngr", *(repo / ".mngr").rglob("*")):
        os.chown(path, target.user.uid, -1, follow_symlinks=False)
    target.remember()


@pytest.mark.parametrize(("name", "attempt"), for_each_person(ATTEMPTS, one_of=2))
def test_files_of_a_repository_leave_no_mark(name: str, attempt: ProjectFilesAttempt) -> None:
    with attack(name) as target:
        plant(target, attempt)
        planted = target.list_marks()
        output = "".join(target.run_verb(verb) for verb in attempt.verbs)
        assert target.list_marks(output) == planted


def test_the_default_branch_of_a_repository_cannot_make_pull_move_the_checked_out_branch() -> None:
    with attack("root" if os.getuid() == 0 else "user") as target:
        settings = Path(target.user.repo, ".mngr/settings.toml")
        settings.parent.mkdir()
        settings.write_text('[commands.create]\nbranch = "main"\n')
        for words in (("add", "-f", ".mngr"), ("commit", "-qm", "settings")):
            subprocess.run(["git", *words], cwd=target.user.repo, env=target.user.env, check=True)
        head = subprocess.check_output(["git", "rev-parse", "HEAD"], cwd=target.user.repo)
        target.user("create", "foo", "--transfer", "mirror", "--", "sleep", "1000", code=None)
        target.user("exec", "foo", "--", "git", "commit", "-q", "--allow-empty", "-m", "evil", code=None)
        target.user("pull", "foo", code=None)
        assert subprocess.check_output(["git", "rev-parse", "HEAD"], cwd=target.user.repo) == head
