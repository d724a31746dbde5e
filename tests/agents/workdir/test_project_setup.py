"""Tests of `[project] setup` and `carry`: set-up runs once per lock hash and fits each work dir."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mngr.agents.workdir import project_setup
from mngr.agents.workdir.project_setup import list_named_files
from mngr.base.paths import Home
from mngr.providers.local import LocalHost
from tests.conftest import MngrProgram, run_git
from tests.support.repos import commit_file, status

RUN = ("--", "sleep", "1000")
# Like a small virtual environment: absolute paths in scripts, in a read-only file and in links.
SETUP = r"""
echo run
mkdir -p .venv/bin
printf '#!%s/.venv/bin/python\n' "$PWD" >.venv/bin/tool
printf 'home = %s\nother = %s-2/x\n' "$PWD" "$PWD" >.venv/cfg
chmod 755 .venv/bin/tool
chmod 444 .venv/cfg
printf 'bin\0%s' "$PWD" >.venv/binary
ln -s "$PWD/.venv/bin/tool" .venv/bin/alias
ln -s tool .venv/bin/relative
mkdir -p .venv/empty
"""


def count_runs(mngr: MngrProgram) -> int:
    """Return how often the set-up has run."""
    return sum(log.read_text().count("run\n") for log in mngr.home.glob("agents/*/setup.log"))


def configure(mngr: MngrProgram, text: str) -> None:
    """Commit these project settings and trust them."""
    (mngr.repo / ".mngr").mkdir(exist_ok=True)
    (mngr.repo / ".mngr/settings.toml").write_text(text)
    run_git(mngr.repo, "add", "-A")
    run_git(mngr.repo, "commit", "-q", "-m", "settings")
    mngr("trust", "--yes")


def configure_setup(mngr: MngrProgram, setup: str = SETUP, more: str = "") -> None:
    """Commit project settings with this set-up command."""
    configure(mngr, f"[project]\nsetup = '''{setup}'''\n{more}")


def test_setup_runs_once_although_git_does_not_ignore_the_metadata_of_a_build(mngr: MngrProgram) -> None:
    (mngr.repo / "old.egg-info").mkdir()
    commit_file(mngr.repo, "old.egg-info/PKG-INFO", "old")
    (mngr.repo / ".gitignore").write_text(".venv/\n")
    build = "mkdir -p src/__pycache__ src/new.egg-info && touch src/__pycache__/a.pyc src/new.egg-info/x; echo new >old.egg-info/PKG-INFO"
    configure_setup(mngr, f"{SETUP}\n{build}")
    mngr("create", "one", *RUN)
    mngr("create", "two", *RUN)
    assert count_runs(mngr) == 1
    assert (mngr.get_work_dir("two") / "src/new.egg-info/x").exists()


def test_setup_runs_once_although_git_ignores_only_parts_of_its_result(mngr: MngrProgram) -> None:
    (mngr.repo / ".gitignore").write_text("bin\n")
    configure_setup(mngr)
    mngr("create", "one", *RUN)
    mngr("create", "two", *RUN)
    assert count_runs(mngr) == 1
    work = mngr.get_work_dir("two")
    assert (work / ".venv/bin/tool").read_text() == f"#!{work}/.venv/bin/python\n" and (work / ".venv/cfg").exists()


@pytest.mark.parametrize("mode", ["worktree", "mirror"])
def test_setup_runs_once_and_its_result_is_adapted_to_each_work_dir(mngr: MngrProgram, mode: str) -> None:
    configure_setup(mngr)
    mngr("create", "one", "--transfer", mode, *RUN)
    mngr("create", "two", "--transfer", mode, *RUN)
    assert count_runs(mngr) == 1
    one, two = mngr.get_work_dir("one"), mngr.get_work_dir("two")
    assert (one / ".venv/bin/tool").read_text() == f"#!{one}/.venv/bin/python\n"
    assert (two / ".venv/bin/tool").read_text() == f"#!{two}/.venv/bin/python\n"
    assert (two / ".venv/bin/tool").stat().st_mode & 0o777 == 0o755
    assert (two / ".venv/cfg").read_text() == f"home = {two}\nother = {one}-2/x\n"
    assert (two / ".venv/cfg").stat().st_mode & 0o777 == 0o444
    assert os.readlink(two / ".venv/bin/alias") == f"{two}/.venv/bin/tool"
    assert os.readlink(two / ".venv/bin/relative") == "tool"
    assert (two / ".venv/binary").read_bytes() == b"bin\0" + os.fsencode(one)
    assert (two / ".venv/empty").is_dir()
    assert status(two) == [""]


def test_setup_runs_again_when_a_lock_file_or_the_command_changes(mngr: MngrProgram) -> None:
    configure_setup(mngr, more='lock = ["deps.txt"]\n')
    mngr("create", "one", *RUN)
    commit_file(mngr.repo, "unrelated.txt")
    mngr("create", "two", *RUN)
    assert count_runs(mngr) == 1
    for number, name in enumerate(("uv.lock", "deps.txt"), 2):
        commit_file(mngr.repo, name)
        mngr("create", f"n{number}", *RUN)
        assert count_runs(mngr) == number
    configure_setup(mngr, SETUP + "\n# changed", more='lock = ["deps.txt"]\n')
    mngr("create", "last", *RUN)
    assert count_runs(mngr) == 4


def test_setup_runs_again_when_a_script_that_its_command_names_changes(mngr: MngrProgram) -> None:
    (mngr.repo / "scripts").mkdir()
    commit_file(mngr.repo, "scripts/install.sh", SETUP)
    configure_setup(mngr, "cd scripts && sh ./install.sh")
    mngr("create", "one", *RUN)
    mngr("create", "two", *RUN)
    assert count_runs(mngr) == 1
    commit_file(mngr.repo, "scripts/install.sh", SETUP + "# changed\n")
    mngr("create", "three", *RUN)
    assert count_runs(mngr) == 2


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("sh scripts/setup.sh", "scripts/setup.sh"),
        ("./install", "install"),
        ("bash -c 'sh \"scripts/setup.sh\"; true'", "scripts/setup.sh"),
        ("cd web&&npm ci", "web/package-lock.json"),
        ("make -C tools dev", "tools/Makefile"),
        ("python -m tools.setup --all", "tools/setup.py"),
        ("pip install --requirement=deps/dev.txt", "deps/dev.txt"),
    ],
)
def test_the_files_that_a_setup_command_names_are_found(command: str, name: str) -> None:
    assert name in list_named_files(command)


def test_agents_that_are_created_together_share_one_setup(mngr: MngrProgram) -> None:
    configure_setup(mngr)
    mngr("create", "w", "--count", "3", *RUN)
    assert count_runs(mngr) == 1
    for number in (1, 2, 3):
        work = mngr.get_work_dir(f"w-{number}")
        assert (work / ".venv/bin/tool").read_text() == f"#!{work}/.venv/bin/python\n"


def test_a_setup_that_changes_tracked_files_is_not_cached(mngr: MngrProgram) -> None:
    configure_setup(mngr, "echo run; echo more >>README.md; echo x >new.txt")
    mngr("create", "one", *RUN)
    mngr("create", "two", *RUN)
    assert count_runs(mngr) == 2
    assert (mngr.get_work_dir("two") / "README.md").read_text() == "hello\nmore\n"
    assert (mngr.get_work_dir("two") / "new.txt").exists()


def test_setup_runs_in_a_copy_but_not_in_a_directory_that_is_used_in_place(mngr: MngrProgram) -> None:
    configure_setup(mngr)
    mngr("create", "one", "--transfer", "copy", *RUN)
    mngr("create", "two", "--transfer", "copy", *RUN)
    assert count_runs(mngr) == 2 and (mngr.get_work_dir("two") / ".venv/bin/tool").exists()
    mngr("create", "three", "--transfer", "none", *RUN)
    assert count_runs(mngr) == 2 and not (mngr.repo / ".venv").exists()


def test_setup_has_the_agents_environment_without_the_callers_variables(mngr: MngrProgram) -> None:
    configure_setup(mngr, 'printf "%s|%s|%s" "$MNGR_AGENT_NAME" "$A" "$CALLERS" >build.log; test ! -t 0')
    mngr("create", "foo", "--env", "A=b c", *RUN, env={"CALLERS": "secret"})
    assert (mngr.get_work_dir("foo") / "build.log").read_text() == "foo|b c|"


def test_a_failed_setup_leaves_nothing_and_shows_the_end_of_its_log(mngr: MngrProgram) -> None:
    configure_setup(mngr, 'for i in 1 2 3 4 5 6 7 8; do echo "line $i"; done; echo "what went wrong" >&2; exit 7')
    result = mngr("create", "foo", *RUN, code=1)
    assert "setup failed with exit code 7" in result.err and "what went wrong" in result.err and "line 8" in result.err
    assert "line 2" not in result.err and "Hint:" in result.err
    assert mngr.list_agents() == [] and list((mngr.home / "work").iterdir()) == []
    assert "mngr/foo" not in run_git(mngr.repo, "branch", "--list")
    mngr("create", "foo", "-S", "project.setup=true", *RUN)


def test_settings_on_the_command_line_apply_to_a_project_named_by_from(mngr: MngrProgram, tmp_path: Path) -> None:
    mngr(
        "create",
        "foo",
        "--from",
        str(mngr.repo),
        "-S",
        "project.setup=echo x >made.log",
        *RUN,
        cwd=tmp_path / "user",
    )
    assert (mngr.get_work_dir("foo") / "made.log").exists()


# ---- carry


@pytest.mark.parametrize("mode", ["worktree", "mirror", "copy"])
def test_carry_copies_ignored_files_and_directories(mngr: MngrProgram, mode: str) -> None:
    (mngr.repo / ".gitignore").write_text(".env*\nlocal/\n*.key\n")
    configure(mngr, '[project]\ncarry = [".env*", "local", "**/*.key", "nowhere"]\n')
    (mngr.repo / ".env").write_text("SECRET=1")
    (mngr.repo / ".env").chmod(0o600)
    (mngr.repo / ".env.é x").write_text("2")
    (mngr.repo / "local/deep").mkdir(parents=True)
    (mngr.repo / "local/deep/data").write_text("3")
    (mngr.repo / "src/a.key").write_text("4")
    mngr("create", "foo", "--transfer", mode, *RUN)
    work = mngr.get_work_dir("foo")
    assert (work / ".env").read_text() == "SECRET=1" and (work / ".env").stat().st_mode & 0o777 == 0o600
    assert (work / ".env.é x").read_text() == "2"
    assert (work / "local/deep/data").read_text() == "3"
    assert (work / "src/a.key").read_text() == "4"
    if mode != "copy":
        assert status(work) == [""]


def test_carry_does_not_copy_tracked_files(mngr: MngrProgram) -> None:
    """A pattern may match tracked files. The agent gets them from its branch, without local changes."""
    (mngr.repo / ".env.example").write_text("first")
    (mngr.repo / ".gitignore").write_text(".env\nconfig/*.local\n")
    (mngr.repo / "config").mkdir()
    (mngr.repo / "config/main").write_text("first")
    configure(mngr, '[project]\ncarry = [".env*", "config", ".git", "*"]\n')
    (mngr.repo / ".env.example").write_text("changed")
    (mngr.repo / "config/main").write_text("changed")
    (mngr.repo / "config/my.local").write_text("mine")
    (mngr.repo / ".env").write_text("mine")
    mngr("create", "foo", "--dirty", "ignore", *RUN)
    work = mngr.get_work_dir("foo")
    assert (work / ".env.example").read_text() == "first" == (work / "config/main").read_text()
    assert (work / ".env").read_text() == "mine" == (work / "config/my.local").read_text()
    assert (work / ".git").is_file() and status(work) == [""]


def test_the_setup_cache_does_not_include_carried_files(mngr: MngrProgram) -> None:
    (mngr.repo / ".gitignore").write_text("build/\n")
    configure_setup(mngr, "echo run; echo made >build/made", 'carry = ["build/data"]\n')
    (mngr.repo / "build").mkdir()
    (mngr.repo / "build/data").write_text("old")
    mngr("create", "one", *RUN)
    (mngr.repo / "build/data").write_text("new")
    mngr("create", "two", *RUN)
    assert count_runs(mngr) == 1
    assert (mngr.get_work_dir("two") / "build/made").read_text() == "made\n"
    assert (mngr.get_work_dir("two") / "build/data").read_text() == "new"


def test_mngr_does_not_cache_a_setup_that_replaces_a_carried_directory_by_a_link(
    mngr: MngrProgram, tmp_path: Path
) -> None:
    private = tmp_path / "private"
    private.mkdir()
    (private / "key").write_text("a private key")
    (mngr.repo / ".gitignore").write_text("data\n")
    configure_setup(mngr, f"rm -rf data; ln -s {private} data", 'carry = ["data"]\n')
    (mngr.repo / "data").mkdir()
    (mngr.repo / "data/file").write_text("carried")
    for name in ("one", "two"):
        mngr("create", name, *RUN)
        assert (mngr.get_work_dir(name) / "data").is_symlink()
    assert list((mngr.home / "cache/setup").glob("*/files")) == []


@pytest.mark.parametrize("pattern", ['"../x"', '"/etc/passwd"', '"a/../../x"', "1"])
def test_carry_rejects_patterns_outside_of_the_project(mngr: MngrProgram, pattern: str) -> None:
    configure(mngr, f"[project]\ncarry = [{pattern}]\n")
    assert "is not a path inside the project" in mngr("create", "foo", *RUN, code=1).err
    assert mngr.list_agents() == []


def test_a_file_that_is_too_large_is_not_read_whole_and_prevents_the_reuse_of_a_setup(tmp_path: Path) -> None:
    """A branch can put a link to any file in the place of a lock file."""
    host = LocalHost(Home(str(tmp_path / "home")))
    large = tmp_path / "large"
    large.touch()
    os.truncate(large, 100 << 20)
    (tmp_path / "uv.lock").symlink_to(large)
    (tmp_path / "small.lock").write_text("x")
    keys = {
        name: {project_setup._compute_cache_key(host, str(tmp_path), "true", [name]) for _ in range(2)}
        for name in ("uv.lock", "small.lock")
    }
    assert (len(keys["uv.lock"]), len(keys["small.lock"])) == (2, 1)
