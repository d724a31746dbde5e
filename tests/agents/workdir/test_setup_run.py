"""Tests of the sandbox around `[project] setup`. tests/escapes/test_set_up.py holds the attempts to leave it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mngr.agents.sandbox import sandbox_for_setup
from tests.agents.workdir.test_project_setup import RUN, configure_setup
from tests.conftest import MngrProgram, run_git
from tests.support.no_bwrap import make_path_without_bwrap
from tests.support.repos import commit_file


def read_log(mngr: MngrProgram, name: str) -> str:
    """Return the output of an agent's set-up."""
    (agent,) = mngr.run_json("list", "--filter", f"name == '{name}'")["agents"]
    log: Path = mngr.home / "agents" / agent["id"] / "setup.log"
    return log.read_text()


def test_setups_of_a_project_share_their_package_cache(mngr: MngrProgram) -> None:
    configure_setup(mngr, "echo run >>~/.cache-of-packages; cat ~/.cache-of-packages")
    mngr("create", "one", *RUN)
    commit_file(mngr.repo, "package.json", "{}")
    mngr("create", "two", *RUN)
    assert read_log(mngr, "two") == "run\nrun\n"
    assert not (Path(mngr.env["HOME"]) / ".cache-of-packages").exists()


def test_untrusted_content_neither_reads_nor_fills_the_package_cache(mngr: MngrProgram) -> None:
    configure_setup(mngr, "echo run >>~/.cache-of-packages; cat ~/.cache-of-packages")
    run_git(mngr.repo, "checkout", "-qb", "other")
    commit_file(mngr.repo, "package.json", '{"name": "other"}')
    run_git(mngr.repo, "checkout", "-q", "main")
    for name, branch in [("one", "other:one"), ("two", "main:two")]:
        mngr("create", name, "--branch", branch, *RUN)
    assert read_log(mngr, "one") == read_log(mngr, "two") == "run\n"
    assert len(list((mngr.home / "cache/packages").iterdir())) == 1


@pytest.mark.parametrize("default_branch", ["main", "trunk"])
def test_a_branch_that_the_user_checks_out_has_its_own_package_cache(mngr: MngrProgram, default_branch: str) -> None:
    """mngr does not know which branch is the default one if none is called main or master."""
    run_git(mngr.repo, "branch", "-m", default_branch)
    configure_setup(mngr, "echo $MNGR_AGENT_NAME | tee -a $UV_PYTHON_INSTALL_DIR/list >>~/list; cat ~/list")
    run_git(mngr.repo, "checkout", "-qb", "other")
    for name, branch in [("one", "other"), ("two", default_branch), ("three", "other"), ("four", default_branch)]:
        run_git(mngr.repo, "checkout", "-q", branch)
        commit_file(mngr.repo, "package.json", f'{{"name": "{name}"}}')
        mngr("create", name, *RUN)
    assert read_log(mngr, "three") == "one\nthree\n"
    assert read_log(mngr, "four") == "two\nfour\n"
    lists = sorted(path.read_text() for path in (mngr.home / "cache/packages").glob("*/pythons/list"))
    assert lists == ["one\nthree\n", "two\nfour\n"]


def create_trusted_then_untrusted(mngr: MngrProgram) -> None:
    """Create the agent `one` from the user's checkout, and the agent `two` from another branch."""
    mngr("create", "one", *RUN)
    run_git(mngr.repo, "checkout", "-qb", "other")
    commit_file(mngr.repo, "package.json", '{"name": "other"}')
    run_git(mngr.repo, "checkout", "-q", "main")
    mngr("create", "two", "--branch", "other:two", *RUN)


def test_untrusted_content_uses_the_pythons_of_the_project_but_cannot_write_them(mngr: MngrProgram) -> None:
    configure_setup(mngr, 'cd "$UV_PYTHON_INSTALL_DIR"; ls; touch cpython 2>/dev/null || echo read-only')
    create_trusted_then_untrusted(mngr)
    assert (read_log(mngr, "one"), read_log(mngr, "two")) == ("", "cpython\nread-only\n")


def test_a_link_that_a_setup_leaves_in_place_of_the_pythons_shows_no_file_to_the_next_setup(
    mngr: MngrProgram, tmp_path: Path
) -> None:
    (tmp_path / "private").mkdir()
    (tmp_path / "private/key").write_text("a private key")
    link = f'rmdir "$place"; mkdir -p "${{place%/*}}"; ln -sfn {tmp_path}/private "$place"'
    places = '"$UV_PYTHON_INSTALL_DIR" ~/.local/share/uv/python'
    configure_setup(mngr, f'for place in {places}; do {link}; cat "$place/key"; done; true')
    create_trusted_then_untrusted(mngr)
    assert "a private key" not in read_log(mngr, "one") + read_log(mngr, "two")


def test_git_reads_the_repository_of_a_worktree_without_its_passwords(mngr: MngrProgram) -> None:
    configure_setup(mngr, "git log --format=%s -1; git config --list --local")
    run_git(mngr.repo, "remote", "add", "origin", "https://me:password@example.com/shop.git")
    mngr("create", "foo", *RUN)
    log = read_log(mngr, "foo")
    assert log.startswith("settings\n") and "remote.origin.url=https://example.com/shop.git" in log
    assert "password" not in log


def test_setup_sees_only_the_parts_of_the_users_repository_that_git_needs(mngr: MngrProgram) -> None:
    git_dir = mngr.repo / ".git"
    run_git(mngr.repo, "config", "extensions.worktreeConfig", "true")
    run_git(mngr.repo, "config", "--worktree", "http.extraHeader", "password")
    configure_setup(mngr, f"git log --format=%s -1; git status --short; grep -r password {git_dir}; true")
    for name in ("modules/lib/config", "hooks/pre-push", "FETCH_HEAD", "logs/stash", "worktrees/other/config.worktree"):
        (git_dir / name).parent.mkdir(parents=True, exist_ok=True)
        (git_dir / name).write_text("password\n")
    mngr("create", "foo", *RUN)
    assert read_log(mngr, "foo") == "settings\n"


@pytest.mark.parametrize("mode", ["worktree", "mirror"])
def test_setup_fetches_submodules_and_leaves_the_users_repository_alone(
    mngr: MngrProgram, tmp_path: Path, mode: str
) -> None:
    inner = tmp_path / "shown/inner"
    inner.mkdir(parents=True)
    run_git(inner, "init", "-q", "-b", "main")
    commit_file(inner, "lib.txt", "library\n")
    run_git(mngr.repo, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", f"file://{inner}", "lib")
    run_git(mngr.repo, "submodule", "--quiet", "deinit", "--force", "lib")
    configure_setup(mngr, "git -c protocol.file.allow=always submodule update --init --quiet")
    mngr("config", "set", "--user", "sandbox.show", f'["{inner}"]')
    before = (mngr.repo / ".git/config").read_text()
    for name in ("foo", "again"):
        mngr("create", name, "--transfer", mode, *RUN)
        assert (mngr.get_work_dir(name) / "lib/lib.txt").read_text() == "library\n"
    assert (mngr.repo / ".git/config").read_text() == before
    assert not (mngr.repo / "lib/lib.txt").exists()


def test_setup_reads_the_repository_of_a_mirror_but_cannot_write_it(mngr: MngrProgram) -> None:
    run_git(mngr.repo, "tag", "-a", "v1.2", "-m", "release")
    writes = ("git config core.pager cat", "touch .git/info", "git rm -q --cached README.md", "mv .git old")
    attempts = "; ".join(f"if {line} 2>/dev/null; then echo wrote: {line}; fi" for line in writes)
    configure_setup(mngr, f"git describe --long; git status --short; touch README.md; git status --short; {attempts}")
    mngr("create", "foo", "--transfer", "mirror", *RUN)
    log = read_log(mngr, "foo")
    assert log.startswith("v1.2-1-g") and len(log.splitlines()) == 1


@pytest.mark.parametrize(
    ("url", "resolved"),
    [
        ("https://example.com/a.git", "https://example.com/a.git"),
        ("../a.git", "https://example.com/team/a.git"),
        ("../../b/a.git", "https://example.com/b/a.git"),
        ("./a.git", "https://example.com/team/shop/a.git"),
    ],
)
def test_the_address_of_a_submodule_is_relative_to_the_address_of_the_repository(url: str, resolved: str) -> None:
    assert sandbox_for_setup._resolve_url(url, "https://example.com/team/shop/") == resolved


def test_setup_does_not_see_the_login_of_a_coding_agent(mngr: MngrProgram, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/claude").write_text("#!/bin/sh\necho 2.1.300\n")
    (tmp_path / "bin/claude").chmod(0o755)
    mngr.env |= {"ANTHROPIC_API_KEY": "key-123", "PATH": f"{tmp_path}/bin:{mngr.env['PATH']}"}
    in_parent = "$(tr '\\0' '\\n' </proc/1/environ | grep -c key-123)"
    configure_setup(mngr, f'echo "key=$ANTHROPIC_API_KEY color=$COLOR parent={in_parent}"; false')
    assert "key= color=blue parent=0" in mngr("create", "foo", "claude", "--env", "COLOR=blue", code=1).err


@pytest.mark.parametrize("mode", ["on", "off"])
@pytest.mark.parametrize("options", [(), ("--sandbox",)])
def test_setup_does_not_see_the_variables_that_the_user_passes_to_the_agent(
    mngr: MngrProgram, tmp_path: Path, mode: str, options: tuple[str, ...]
) -> None:
    """A variable of --env is in the command line, so it is no secret."""
    line = 'echo "$A-$B-$C-$D"; grep -c key- "$MNGR_AGENT_DIR/env"'
    configure_setup(mngr, f"{line}; true")
    mngr("config", "set", "--user", "sandbox.setup", mode)
    (tmp_path / "env").write_text("B='key-b\n'\nD=overridden\n")
    words = ("--pass-env", "A", "--env-file", str(tmp_path / "env"), "--env", "C=c", "--env", "D=d")
    mngr("create", "foo", *options, *words, *RUN, env={"A": "key-a\nX=1"})
    expected = "--c-d\n" if mode == "on" else "--c-d\n0\n"  # The set-up's sandbox does not show the file.
    assert read_log(mngr, "foo").replace("grep: ", "").splitlines()[: len(expected.splitlines())] == expected.split()
    assert mngr("exec", "foo", "--", "sh", "-c", 'echo "$A $B $C $D"').out == "key-a\nX=1 key-b\n c d\n"


def test_a_copy_of_an_agent_is_set_up_without_the_users_private_variables(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--pass-env", "A", *RUN, env={"A": "key-a"})
    configure_setup(mngr, 'echo "run $A"')
    mngr("clone", "foo", "bar")
    assert read_log(mngr, "bar") == "run \n"
    assert mngr("exec", "bar", "--", "sh", "-c", 'echo "$A"').out == "key-a\n"


@pytest.mark.parametrize(
    ("text", "is_shown"),
    [
        ("registry=https://packages.example.com/\n", True),
        ("//packages.example.com/:_authToken=abc\n", False),
        ("[global]\nmirror = https://me:abc@packages.example.com/simple\n", False),
        ("[global]\nmirror = https://ghp_abc@packages.example.com/simple\n", False),
        ("[global]\nmirror = https://key:@packages.example.com/simple\n", False),
        ("[global]\nmirror = https://me:p@ss@packages.example.com/simple\n", False),
        ("channels:\n  - https://conda.example.com/t/ab-1234-5678/me\n", False),
        ("@team:registry=https://packages.example.com/@team/\n", True),
        ("[global]\nwheels = /usr/share/wheels\n", True),
    ],
)
def test_setup_sees_the_settings_of_package_managers_without_credentials(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str, is_shown: bool
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".npmrc").write_text(text)
    assert (str(tmp_path / ".npmrc") in sandbox_for_setup._list_package_settings()) is is_shown


def test_setup_sees_the_local_packages_that_settings_name_but_nothing_of_the_home(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    home, wheels = tmp_path / "home", tmp_path / "wheels"
    for folder in (home / ".pip", home / "private", wheels):
        folder.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    settings = home / ".pip/pip.conf"
    settings.write_text(f"[global]\nwheels = {wheels} file://{home}/private\nextra = /etc /home\n")
    assert sandbox_for_setup._list_package_settings() == [str(settings), str(wheels)]


def test_a_failed_setup_shows_its_last_lines_and_both_ways_out(mngr: MngrProgram) -> None:
    configure_setup(mngr, "echo reason; touch /usr/x || exit 9")
    err = mngr("create", "foo", *RUN, code=1).err
    assert "exit code 9" in err and "reason" in err
    assert "mngr config set --user sandbox.show" in err and "mngr config set --user sandbox.setup off" in err
    assert mngr.run_json("list")["agents"] == [] and list((mngr.home / "cache/packages").glob("*.*")) == []


def test_sandbox_setup_accepts_only_auto_on_and_off(mngr: MngrProgram) -> None:
    configure_setup(mngr, "true")
    mngr("config", "set", "--user", "sandbox.setup", "sometimes")
    assert "it must be auto, on or off" in mngr("create", "foo", *RUN, code=1).err


@pytest.mark.parametrize(("mode", "code"), [("auto", 0), ("on", 1)])
def test_without_bubblewrap_setup_runs_only_if_no_sandbox_is_required(
    mngr: MngrProgram, tmp_path: Path, mode: str, code: int
) -> None:
    configure_setup(mngr, "echo ran")
    mngr.env["PATH"] = make_path_without_bwrap(tmp_path / "programs", mngr.env["PATH"])
    mngr("config", "set", "--user", "sandbox.setup", mode)
    err = mngr("create", "foo", *RUN, code=code).err
    assert ("bubblewrap (bwrap) is not installed" in err) is (mode == "on")
    assert os.path.isdir(mngr.home / "work/foo") is (mode == "auto")
