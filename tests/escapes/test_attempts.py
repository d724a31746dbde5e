"""Runs every attempt of the tables against the local sandbox, as root and as an ordinary user."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.escapes import direct, git_configuration, planted_files
from tests.escapes.attempt import AGENT, LOOK, TRAP, Attempt, Target, attack, for_each_person, prove, some
from tests.escapes.services import Services
from tests.support.person import PEOPLE

PLANTED = [*git_configuration.ATTEMPTS, *planted_files.ATTEMPTS]
REAL = [*(attempt for attempt in PLANTED if attempt.proof), *direct.REAL]
AGENTS = {AGENT: "foo", direct.ON: "open", direct.FEW: "few"}


@pytest.mark.parametrize(("name", "attempt"), for_each_person(PLANTED, one_of=30))
def test_what_an_agent_plants_leaves_no_mark_when_the_user_runs_commands(name: str, attempt: Attempt) -> None:
    with attack(name) as target:
        target.user("create", "foo", *attempt.options)
        output = target.run_in_agent(attempt.plant)
        assert target.list_marks(output) == []
        for verb in attempt.verbs:
            target.run_verb(verb)
            assert target.list_marks() == [], verb


# Sets every program that git knows in the agent's repository.
_ALL_PROGRAMS = f"""{TRAP}
for key in core.fsmonitor core.sshCommand diff.external filter.x.clean filter.x.smudge core.pager; do git config $key ~/trap; done
mkdir -p .git/hooks; for n in post-checkout post-index-change reference-transaction post-merge pre-push; do cp ~/trap .git/hooks/$n; done
mkdir -p .git/info; echo '* filter=x' > .git/info/attributes; echo more >> README.md; git -c core.hooksPath=/dev/null -c core.fsmonitor=false -c filter.x.clean=cat commit -qam more
"""
_IN_PROJECT = (
    *LOOK,
    "pull own",
    "push own",
    "create bar --dirty ignore -- true",
    "tmr verify",
    "tmr run --dry-run",
    "tmr list",
    "init",
    "tutorial init --program x",
    "tutorial sync",
    "map a -- true",
    "trust --yes",
)
_IN_ANOTHER_HOME = ("init", "create bar --dirty include -- true", "pull own", "tmr run --dry-run")


def test_no_command_runs_the_programs_of_an_agent_when_the_user_is_in_its_work_dir() -> None:
    with attack(PEOPLE[0]) as target:
        for words in (("foo", *AGENT), ("own", "--", "sleep", "1000")):
            target.user("create", *words)
        work_dir = target.user.get_work_dir("foo")
        assert target.list_marks(target.run_in_agent(_ALL_PROGRAMS)) == []
        for verb in (*_IN_PROJECT, *(f"--home {{STATE}}-other {verb}" for verb in _IN_ANOTHER_HOME)):
            target.run_verb(verb, cwd=work_dir)
            assert target.list_marks() == [], verb
        _prove_that_git_obeys(work_dir, target)


def _prove_that_git_obeys(directory: Path, target: Target) -> None:
    """Check that plain git leaves a mark in a directory, so that commands of mngr could leave one, too."""
    subprocess.run(["git", "status"], cwd=directory, env=target.user.env, capture_output=True, check=False)
    assert target.list_marks() != []


# An output that git takes for a repository, although it has no `.git`.
_REPOSITORY_AS_OUTPUT = f"""{TRAP}
cd "$MNGR_OUTPUT_DIR"; git init -q --bare .; git update-ref HEAD "$(git commit-tree -m x "$(git mktree </dev/null)")"; mkdir d
printf '[core]\nrepositoryFormatVersion = 0\nbare = false\nworktree = %s\nfsmonitor = %s\n' "$TREE" ~/trap > config; cp -r HEAD config objects refs d
"""
_IN_OUTPUTS = (
    "create bar --dirty include -- true",
    "pull foo",
    "init",
    "tmr run --dry-run",
    "tutorial sync",
)


# Git before version 2.38 ignores the setting that protects from such a repository.
_OLD_GIT = """#!/bin/sh
for word do shift; case $word in safe.bareRepository=*) word=safe.old=x ;; esac; set -- "$@" "$word"; done
exec {} "$@"
"""


@pytest.mark.parametrize("tree", ["$TREASURE", "."])
@pytest.mark.parametrize("version", ["old", "new"])
def test_outputs_that_look_like_a_repository_leave_no_mark_when_the_user_is_in_them(
    version: str, tree: str, tmp_path: Path
) -> None:
    with attack(PEOPLE[0]) as target:
        if version == "old":
            (tmp_path / "git").write_text(_OLD_GIT.format(shutil.which("git")))
            (tmp_path / "git").chmod(0o755)
            target.user.env["PATH"] = f"{tmp_path}:{target.user.env['PATH']}"
        target.user("create", "foo", *AGENT)
        target.run_in_agent(f"TREE={tree}\n{_REPOSITORY_AS_OUTPUT}")
        assert "is a git repository" in target.run_verb("pull foo")
        # As if the copy had not refused them.
        shutil.rmtree(target.user.repo / ".mngr")
        (agent_dir,) = (target.user.home / "agents").iterdir()
        copied = target.user.repo / ".mngr" / "copied"
        shutil.copytree(agent_dir / "outputs", copied)
        target.remember()
        for verb in _IN_OUTPUTS:
            target.run_verb(verb, cwd=copied)
            assert target.list_marks() == [], verb
        _prove_that_git_obeys(copied, target)


_FROM_AGENT = (
    *(
        "create bar --from foo --dirty include --sandbox -- sleep 1000",
        "create baz --from foo --dirty ignore --sandbox -- sleep 1000",
    ),
    *("pull foo", "create branch --branch mngr/foo:x --sandbox -- sleep 1000", "clone foo copy"),
    *("list --git", "diff foo", "snapshot create foo kept", "destroy --force foo", "undestroy foo"),
    "create tree --branch mngr/foo:tree -- sleep 1000",  # a worktree
)


def test_the_users_own_git_filters_run_on_no_file_of_an_agent() -> None:
    """A filter such as git-lfs is a program of the user, but the agent chooses what it reads."""
    with attack(PEOPLE[0]) as target:
        mark = target.outside.root / "marks" / "ran"
        with (Path(target.user.env["HOME"]) / ".gitconfig").open("a") as file:
            file.write(f'[filter "own"]\n\tsmudge = touch {mark}; cat\n\tclean = touch {mark}; cat\n')
        target.remember()
        target.user("create", "foo", *AGENT)
        target.run_in_agent(
            "echo '* filter=own' > .gitattributes; git add .; git commit -qm filter; echo x >> README.md"
        )
        for verb in _FROM_AGENT:
            target.run_verb(verb)
            assert target.list_marks() == [], verb
        assert "* filter=own" in (target.user.get_work_dir("tree") / ".gitattributes").read_text()


@pytest.fixture(scope="module", params=PEOPLE)
def served(request: pytest.FixtureRequest) -> Iterator[tuple[Target, Services]]:
    """A user with servers, a process and agents with different networks."""
    with (
        attack(request.param) as target,
        Services(target.outside.root, target.outside.secret, target.user.uid) as services,
    ):
        target.variables |= services.variables
        target.remember()
        for options, name in AGENTS.items():
            target.user("create", name, *options)
        yield target, services


@pytest.mark.parametrize("attempt", some(direct.ATTEMPTS, one_of=4))
def test_what_an_agent_does_itself_leaves_no_mark(served: tuple[Target, Services], attempt: Attempt) -> None:
    target, services = served
    output = target.run_in_agent(attempt.plant, AGENTS[attempt.options], code=None)
    assert target.list_marks(output) + services.list_marks() == []


@pytest.mark.parametrize("attempt", some(REAL, one_of=4))
def test_an_attempt_leaves_a_mark_where_there_is_no_sandbox(attempt: Attempt, tmp_path: Path, repo: Path) -> None:
    """Without this check, an attempt could fail only because it is wrong."""
    assert prove(attempt, tmp_path / "place", repo) != []
