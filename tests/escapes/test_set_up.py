"""Attempts of a project's set-up, which runs code of many authors: dependencies, build scripts, install hooks."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass

import pytest

from tests.conftest import run_git
from tests.escapes.attempt import Target, attack, for_each_person, some
from tests.escapes.services import Services
from tests.support.landlock import HAS_SCOPES
from tests.support.person import PEOPLE

CREATE = "create foo -- sleep 1000"
COPY = "create foo --transfer copy -- sleep 1000"
CREATE_SANDBOXED = ("create foo --sandbox -- sleep 1000", "create bar --sandbox -- sleep 1000")
# git reports a file of another work tree, at whose path the real work tree has a link to the user's directory.
OTHER_WORK_TREE = """
mkdir .git/other && git ls-files -z | xargs -0 cp --parents -t .git/other && echo x >.git/other/src/secret
mkdir -p .git/info && echo src/secret >.git/info/exclude
git config core.worktree ../.git/other && rm -rf src && ln -s "${SECRET%/*}" src
"""


# The project is its own submodule `sub`.
FETCH_SUBMODULE = "git -c protocol.file.allow=always submodule --quiet update --init\n"
UPDATE_SUBMODULE = "git -C {STATE}/work/foo -c protocol.file.allow=always -c submodule.active=. -c submodule.sub.url={REPO} submodule update"
COMMIT = 'commit() { git -C "$1" -c user.name=a -c user.email=a@b commit -q --allow-empty -m x; }\n'
SUBMODULE_SETTINGS = '[submodule "sub"]\n\tpath = sub\n\turl = {}\n'
GIT_STATUS = (CREATE, "list --git", "git -C {STATE}/work/foo status", "git -C {STATE}/work/foo submodule summary")
# Finds the variable TOKEN of the user in the set-up's own variables, in those of other processes, and in the env file.
FIND_TOKEN = """{ env; cat /proc/[0-9]*/environ "$MNGR_AGENT_DIR/env" | tr '\\0' '\\n'; } 2>&1 | sed -n '/TOKEN=a-token/s/^/MARK /p' >read"""
PASS_TOKEN = ("create foo --pass-env TOKEN -- sleep 1000", "exec foo -- cat read")
PASS_TOKEN_TO_BRANCH = (
    "create foo --sandbox --branch other:foo --pass-env TOKEN -- sleep 1000",
    "exec foo -- cat read",
)
POISON_PACKAGE = (
    "git -c safe.directory=* checkout -q other",
    "create foo -- sleep 1000",
    "git -c safe.directory=* checkout -q main",
    "create bar -- sleep 1000",
    "exec bar -- cat read",
)


@dataclass(frozen=True)
class SetUpAttempt:
    """A set-up command that the user trusts, and the commands that the user runs in the project."""

    name: str
    script: str  # runs in the work dir, with the variables of an attempt
    verbs: tuple[str, ...] = (CREATE,)
    is_real: bool = True  # it leaves a mark without a sandbox


ATTEMPTS = [
    SetUpAttempt("a set-up creates a file outside", 'touch "$MARK"'),
    SetUpAttempt("a set-up changes a file of the user", 'echo changed >>"$PRECIOUS"'),
    SetUpAttempt("a set-up empties a directory of the user", 'rm -rf "$TREASURE"/*'),
    SetUpAttempt("a set-up reads a secret", 'cat "$SECRET" >read'),
    SetUpAttempt("a set-up writes to the home of the user", 'touch "$USER_HOME/.profile"'),
    SetUpAttempt("a set-up reads the home of mngr", 'ls "$STATE/agents" >/dev/null && touch "$STATE/mark" && touch "$MARK"'),
    SetUpAttempt("a set-up ends a process of the user", 'kill "$VICTIM"'),
    SetUpAttempt("a set-up uses a socket of the user", """python3 -c 'import os, socket; socket.socket(socket.AF_UNIX).connect(os.environ["SOCKET"])'"""),
    *([SetUpAttempt("a set-up uses a socket of the user without a file", """python3 -c 'import os, socket; socket.socket(socket.AF_UNIX).connect(chr(0) + os.environ["ABSTRACT"])'""")] if HAS_SCOPES else []),
    SetUpAttempt("a set-up adds a hook to the user's repository", 'echo "touch $MARK" >"$REPO/.git/hooks/post-checkout"'),
    SetUpAttempt("a set-up writes to the configuration of the repository", 'git config core.fsmonitor "touch $MARK"', (CREATE, "list --git", "git status")),
    SetUpAttempt("a set-up moves the worktree to a repository of its own", 'git init -q fake && git -C fake config core.fsmonitor "touch $MARK; false" && echo "gitdir: $PWD/fake/.git" >.git', (CREATE, "list --git", "diff foo", "destroy --force foo")),
    SetUpAttempt("a set-up moves a branch of the user", 'git update-ref refs/heads/main HEAD~0 && git update-ref refs/heads/evil HEAD', (CREATE,), False),
    SetUpAttempt("a set-up replaces the log that it writes to", 'rm -f /proc/self/fd/1; ln -sf "$PRECIOUS" "$MNGR_AGENT_DIR/setup.log"; echo changed', (CREATE,), False),
    SetUpAttempt("a set-up leaves a link in place of a directory that is cached", 'ln -s "$TREASURE" .venv', (CREATE, "create bar -- sleep 1000", "destroy --force foo", "gc"), False),
    SetUpAttempt("a set-up makes mngr cache a file of the user", OTHER_WORK_TREE, CREATE_SANDBOXED, False),
    SetUpAttempt("a set-up changes the configuration of a mirror", 'git config core.fsmonitor "touch $MARK; false"', ("create foo --transfer mirror -- sleep 1000", "exec foo -- git status")),
    SetUpAttempt("a set-up writes to the configuration of a submodule", FETCH_SUBMODULE + 'git -C sub config core.fsmonitor "touch $MARK; false"', GIT_STATUS),
    SetUpAttempt("a set-up adds a hook and a filter to a submodule", FETCH_SUBMODULE + 'd=$(git -C sub rev-parse --git-dir); mkdir -p "$d/hooks"; echo "touch $MARK" >"$d/hooks/post-index-change"; chmod 755 "$d/hooks/post-index-change"; git -C sub config filter.x.clean "touch $MARK; cat"; echo "* filter=x" >sub/.gitattributes; echo x >>sub/README.md; touch sub/README.md', GIT_STATUS),
    SetUpAttempt("a set-up replaces the repository of a submodule by its own", 'rm -rf sub; git init -q sub; commit sub; git -C sub config core.fsmonitor "touch $MARK; false"', GIT_STATUS),
    SetUpAttempt("a set-up moves a submodule to a repository of its own", FETCH_SUBMODULE + 'git init -q fake; commit fake; git -C fake config core.fsmonitor "touch $MARK; false"; echo "gitdir: $PWD/fake/.git" >sub/.git', GIT_STATUS),
    SetUpAttempt("a set-up prepares the repository of a submodule that the user fetches later", FETCH_SUBMODULE + 'd=$(git -C sub rev-parse --absolute-git-dir); git -C sub config core.fsmonitor "touch $MARK; false"; rm -rf sub; mkdir sub', ("create foo -- sleep 1000", UPDATE_SUBMODULE, *GIT_STATUS[1:])),
    SetUpAttempt("a set-up hides a program in a nested submodule", FETCH_SUBMODULE + 'd=$(git -C sub rev-parse --absolute-git-dir); git init -q sub/in; commit sub/in; git -C sub/in config core.fsmonitor "touch $MARK; false"; git -C sub -c advice.addEmbeddedRepo=false add in', GIT_STATUS),
    SetUpAttempt("a set-up leaves a pipe and a link in the repository of a submodule", FETCH_SUBMODULE + 'd=$(git -C sub rev-parse --git-dir); rm "$d/index"; mkfifo "$d/index"; ln -s "$SECRET" "$d/config.lock"', (CREATE, "list --git"), False),
    SetUpAttempt("a set-up makes a repository of a copy", 'git init -q .; commit .; git config core.fsmonitor "touch $MARK; false"; mkdir -p .git/hooks; echo "touch $MARK" >.git/hooks/pre-commit; chmod 755 .git/hooks/pre-commit', (COPY, "git -C {STATE}/work/foo status", "git -C {STATE}/work/foo commit --allow-empty -m x")),
    SetUpAttempt("a set-up makes a copy part of another repository", 'git init -q fake; commit fake; git -C fake config core.fsmonitor "touch $MARK; false"; echo "gitdir: fake/.git" >.git', (COPY, "git -C {STATE}/work/foo status")),
    SetUpAttempt("a set-up finds a variable that the user passes to the agent", FIND_TOKEN, PASS_TOKEN, False),
    SetUpAttempt("a set-up of another branch finds a variable that the user passes to the sandboxed agent", FIND_TOKEN, PASS_TOKEN_TO_BRANCH, False),
    SetUpAttempt("a set-up of a branch that the user reviews changes a package for the main branch", 'cat ~/package >read; echo MARK >~/package', POISON_PACKAGE),
    SetUpAttempt("a set-up leaves a process that waits for the agent", '(sleep 1; touch "$MARK") >/dev/null 2>&1 &', (CREATE, "exec foo -- sleep 2")),
]  # fmt: skip


def run(target: Target, services: Services, attempt: SetUpAttempt, mode: str) -> list[str]:
    """Trust the set-up in the user's project, run the user's commands, and return the marks."""
    user = target.user
    target.variables |= {**services.variables, "USER_HOME": user.env["HOME"]}
    (user.repo / ".mngr").mkdir(exist_ok=True)
    (user.repo / "set-up.sh").write_text(target.build_script("export SOCKET ABSTRACT\n" + COMMIT + attempt.script))
    (user.repo / ".mngr/settings.toml").write_text('[project]\nsetup = "sh set-up.sh || :"\n')
    (user.repo / ".git/info/exclude").write_text(".mngr\nread\nfake\n.venv\n")
    subprocess.run(["chown", "-R", str(user.uid), str(user.repo)], check=True)
    git = ["git", "-c", "safe.directory=*", "-c", "user.name=a", "-c", "user.email=a@b"]
    submodule = [
        "update-index",
        "--add",
        "--cacheinfo",
        f"160000,{run_git(user.repo, *git[1:], 'rev-parse', 'HEAD')},sub",
    ]
    (user.repo / "sub").mkdir()
    (user.repo / ".gitmodules").write_text(SUBMODULE_SETTINGS.format(user.repo))
    for words in (["add", "-A"], submodule, ["commit", "-qm", "set-up"]):
        subprocess.run([*git, *words], cwd=user.repo, env={**os.environ, **user.env}, check=True)
    other = run_git(user.repo, *git[1:], "commit-tree", "-m", "other", "-p", "HEAD", "HEAD^{tree}")
    run_git(user.repo, *git[1:], "branch", "other", other)
    subprocess.run(["chown", "-R", str(user.uid), str(user.repo)], check=True)
    user("trust", "--yes")
    user("config", "set", "--user", "sandbox.setup", mode)
    user.env["TOKEN"] = "a-token"
    target.remember()
    output = "".join(target.run_verb(verb) for verb in attempt.verbs)
    return target.list_marks(output) + services.list_marks()


@pytest.mark.parametrize(("name", "attempt"), for_each_person(ATTEMPTS, one_of=4))
def test_what_a_set_up_does_leaves_no_mark(name: str, attempt: SetUpAttempt) -> None:
    with (
        attack(name) as target,
        Services(target.outside.root, target.outside.secret, target.user.uid) as services,
    ):
        assert run(target, services, attempt, "on") == []


@pytest.mark.parametrize("attempt", some([attempt for attempt in ATTEMPTS if attempt.is_real], one_of=4))
def test_the_same_set_up_leaves_a_mark_without_a_sandbox(attempt: SetUpAttempt) -> None:
    """Without this check, an attempt could fail only because it is wrong."""
    with (
        attack(PEOPLE[0]) as target,
        Services(target.outside.root, target.outside.secret, target.user.uid) as services,
    ):
        assert run(target, services, attempt, "off") != []


def test_a_set_up_in_the_agents_own_sandbox_does_not_make_mngr_cache_a_file_of_the_user() -> None:
    """There, the set-up can write the repository, so git reports whatever the set-up likes."""
    attempt = SetUpAttempt("another work tree", OTHER_WORK_TREE, CREATE_SANDBOXED)
    with (
        attack(PEOPLE[0]) as target,
        Services(target.outside.root, target.outside.secret, target.user.uid) as services,
    ):
        assert run(target, services, attempt, "off") == []
