"""Tests of `mngr trust`: a project's settings run nothing before the user has trusted exactly these settings."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from mngr.testkit.contract.pty_terminal import PtyTerminal
from tests.conftest import MngrProgram, run_git

RUN = ("--", "sleep", "1000")


def write_settings(mngr: MngrProgram, text: str, name: str = "settings.toml") -> None:
    """Write and commit a settings file of the project."""
    (mngr.repo / ".mngr").mkdir(exist_ok=True)
    (mngr.repo / ".mngr" / name).write_text(text)
    run_git(mngr.repo, "add", "-A", "-f")
    run_git(mngr.repo, "commit", "-q", "-m", "settings")


def get_hash(mngr: MngrProgram) -> str:
    return str(mngr.run_json("trust", "--show")["hash"])


def test_create_refuses_untrusted_set_up_and_leaves_nothing(mngr: MngrProgram) -> None:
    write_settings(mngr, '[project]\nsetup = "touch ran"\n')
    refusal = mngr("create", "foo", *RUN, code=1).err
    assert 'project.setup = "touch ran"' in refusal
    assert f"Hint: if you trust them: mngr trust {mngr.repo}" in refusal
    assert mngr.list_agents() == []
    assert run_git(mngr.repo, "branch", "--list", "mngr/*") == ""
    mngr("trust", "--yes")
    mngr("create", "foo", *RUN)
    assert (mngr.get_work_dir("foo") / "ran").exists()


def test_a_changed_value_asks_again_and_shows_the_difference(mngr: MngrProgram) -> None:
    write_settings(mngr, '[project]\nsetup = "true"\n')
    mngr("trust", "--yes")
    write_settings(mngr, '[project]\nsetup = "false"\n')
    assert 'project.setup = "false"  (you trusted: "true")' in mngr("create", "foo", *RUN, code=1).err
    write_settings(mngr, '[project]\nsetup = "true"\n')
    mngr("create", "foo", *RUN)


def test_the_local_file_needs_trust_like_the_shared_one(mngr: MngrProgram) -> None:
    write_settings(mngr, '[project]\nsetup = "true"\n')
    mngr("trust", "--yes")
    write_settings(mngr, '[project]\nsetup = "touch ran"\n', "settings.local.toml")
    mngr("create", "foo", *RUN, code=1)


def test_a_hash_trusts_only_the_same_settings(mngr: MngrProgram) -> None:
    write_settings(mngr, '[project]\nsetup = "true"\n')
    digest = get_hash(mngr)
    write_settings(mngr, '[project]\nsetup = "false"\n')
    refusal = mngr("trust", "--hash", digest, code=1).err
    assert f"mngr trust --hash {get_hash(mngr)}" in refusal
    mngr("trust", "--hash", get_hash(mngr))
    assert mngr.run_json("trust", "--show")["is_trusted"] is True


def test_without_a_terminal_trust_prints_the_command_to_run(mngr: MngrProgram) -> None:
    write_settings(mngr, '[project]\nsetup = "true"\n')
    assert f"mngr trust --hash {get_hash(mngr)}" in mngr("trust", code=1).err


@pytest.mark.parametrize(("answer", "code"), [("y", 0), ("n", 1), ("", 1)])
def test_on_a_terminal_trust_asks_once(mngr: MngrProgram, answer: str, code: int) -> None:
    write_settings(mngr, '[project]\nsetup = "true"\n')
    with PtyTerminal(["mngr", "trust"], mngr.repo, mngr.env) as terminal:
        shown = terminal.wait_for_text("Do you trust them?")
        terminal.type(answer + "\n")
        assert terminal.process.wait() == code
    assert 'project.setup = "true"' in shown
    assert mngr.run_json("trust", "--show")["is_trusted"] is (code == 0)


def test_worktrees_share_trust_and_other_clones_do_not(mngr: MngrProgram, tmp_path: Path) -> None:
    write_settings(mngr, '[project]\nsetup = "true"\n')
    mngr("trust", "--yes")
    run_git(mngr.repo, "worktree", "add", "-q", str(tmp_path / "tree"))
    run_git(mngr.repo, "clone", "-q", ".", str(tmp_path / "clone"))
    assert mngr.run_json("trust", "--show", cwd=tmp_path / "tree")["is_trusted"] is True
    assert mngr.run_json("trust", "--show", cwd=tmp_path / "clone")["is_trusted"] is False


def test_an_agents_work_dir_cannot_be_trusted(mngr: MngrProgram) -> None:
    write_settings(mngr, '[project]\nsetup = "true"\n')
    mngr("trust", "--yes")
    mngr("create", "foo", *RUN)
    work = mngr.get_work_dir("foo")
    (work / ".mngr/settings.toml").write_text('[project]\nsetup = "touch ran"\n')
    assert "does not trust settings in an agent's work dir" in mngr("trust", "--yes", cwd=work, code=1).err
    mngr("create", "bar", "--dirty", "include", *RUN, cwd=work, code=1)
    assert not (work / "ran").exists()


def test_settings_that_an_agent_wrote_are_refused_without_a_question(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--sandbox", "--", "sleep", "1000")
    mark = mngr.repo.parent / "mark"
    line = f'[project]\\nsetup = "touch {mark}"\\n'
    mngr("exec", "foo", "--", "sh", "-c", f"mkdir -p .mngr; printf '{line}' > .mngr/settings.toml")
    command = ["mngr", "create", "bar", "--from", "foo", "--dirty", "include", "--no-connect", "--", "sleep", "1000"]
    with PtyTerminal(command, mngr.repo, mngr.env) as terminal:
        shown = terminal.wait_for_text("Hint:")
        assert terminal.process.wait() == 1
    assert "the settings in the work dir of foo" in shown and "Do you trust them?" not in shown
    assert not mark.exists() and not list((mngr.home / "trust").glob("*.json"))


def test_init_and_config_set_trust_what_they_write(mngr: MngrProgram) -> None:
    (mngr.repo / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    mngr("init")
    assert mngr.run_json("trust", "--show")["is_trusted"] is True
    mngr("config", "set", "project.setup", "touch ran")
    assert mngr.run_json("trust", "--show")["is_trusted"] is True
    write_settings(mngr, '[project]\nsetup = "touch ran"\nlint = "touch lint"\n')
    shown = mngr.run_json("trust", "--show")
    assert [change["key"] for change in shown["changes"]] == ["project.lint"]


def test_revoke_takes_trust_back(mngr: MngrProgram) -> None:
    write_settings(mngr, '[project]\nsetup = "true"\n')
    mngr("trust", "--yes")
    mngr("trust", "--revoke")
    mngr("create", "foo", *RUN, code=1)
    assert "was not trusted" in mngr("trust", "--revoke").out


@pytest.mark.parametrize(
    "text",
    [
        '[tmux]\nsource = "evil.conf"\n',
        '[agents.claude]\nprogram = "./evil"\n',
        '[commands.create]\nconnect_command = "./evil"\n',
        '[commands.create]\npass_env = ["SECRET"]\n',
        '[commands.create]\nnetwork = "on"\n',
        '[templates.t]\nenv = ["A=b"]\n',
        '[commands.tmr.verify]\nisolation = "off"\n',
        '[tmr]\nnotify = "./evil"\n',
        '[sandbox]\nshow = ["/"]\n',
        '[policy]\nallow = ["*"]\n',
        '[usage]\nprices = "/etc/passwd"\n',
    ],
)
def test_settings_of_the_user_alone_do_not_count_in_a_project(mngr: MngrProgram, text: str) -> None:
    write_settings(mngr, text)
    mngr("trust", "--yes")
    key = text.split("]", maxsplit=1)[0][1:]
    assert not [row for row in mngr.run_json("config", "list")["settings"] if row["key"].startswith(key)]
    assert mngr.run_json("trust", "--show")["ignored"]


def test_the_users_settings_can_override_for_one_project(mngr: MngrProgram) -> None:
    mngr.home.mkdir(mode=0o700)
    (mngr.home / "settings.toml").write_text(
        f'[projects."{mngr.repo}".commands.create]\nlabel = ["team=red"]\n'
        '[projects."/nowhere".commands.create]\nlabel = ["team=blue"]\n'
    )
    mngr("create", "foo", *RUN)
    assert mngr.get_agent("foo")["labels"] == {"team": "red"}


def test_a_value_cannot_change_the_terminal(mngr: MngrProgram) -> None:
    write_settings(mngr, '[project]\nsetup = "evil\\u001b[2K\\rtrue"\n')
    refusal = mngr("create", "foo", *RUN, code=1).err
    assert "\x1b" not in refusal
    assert "evil" in refusal


def test_settings_of_another_user_are_not_read_unless_git_calls_the_directory_safe(
    mngr: MngrProgram, tmp_path: Path
) -> None:
    place = tmp_path / "shared" / "sub"
    place.mkdir(parents=True)
    settings = tmp_path / "shared/.mngr/settings.toml"
    settings.parent.mkdir()
    settings.write_text('[commands.create]\nlabel = ["team=red"]\n')
    is_root = os.geteuid() == 0
    if is_root:
        os.chown(settings, 12345, 12345)
    else:  # Only root can give a file away, but anybody can link to a file of root.
        settings.unlink()
        settings.symlink_to("/etc/passwd")
    listing = mngr.run_json("config", "list", cwd=place)["settings"]
    assert not [row for row in listing if row["source"] == "project"]
    run_git(
        mngr.repo,
        "config",
        "--file",
        str(Path(mngr.env["HOME"]) / ".gitconfig"),
        "safe.directory",
        str(tmp_path / "shared"),
    )
    if is_root:
        listing = mngr.run_json("config", "list", cwd=place)["settings"]
        assert [row["key"] for row in listing if row["source"] == "project"] == ["commands.create.label"]


def test_a_damaged_trust_file_is_an_error_with_a_way_out(mngr: MngrProgram) -> None:
    write_settings(mngr, '[project]\nsetup = "true"\n')
    mngr("trust", "--yes")
    (path,) = (mngr.home / "trust").iterdir()
    assert json.loads(path.read_text())["settings"] == {"project.setup": "true"}
    path.write_text("{")
    refusal = mngr("create", "foo", *RUN, code=1).err
    assert f"rm {path}" in refusal


def test_another_repository_in_the_same_place_is_not_trusted(mngr: MngrProgram) -> None:
    write_settings(mngr, '[project]\nsetup = "sh setup.sh"\n')
    mngr("trust", "--yes")
    mngr.repo.rename(mngr.repo.with_name("old"))
    mngr.repo.mkdir()
    run_git(mngr.repo, "init", "-q")
    write_settings(mngr, '[project]\nsetup = "sh setup.sh"\n')
    assert "you have not trusted the settings" in mngr("create", "foo", *RUN, code=1).err
    mngr("trust", "--yes")
    assert mngr.run_json("trust", "--show")["is_trusted"] is True


def test_a_clone_of_a_trusted_repository_in_its_place_is_not_trusted(mngr: MngrProgram) -> None:
    write_settings(mngr, '[project]\nsetup = "true"\n')
    mngr("trust", "--yes")
    old = mngr.repo.rename(mngr.repo.with_name("old"))
    run_git(old, "clone", "-q", ".", str(mngr.repo))
    assert mngr.run_json("trust", "--show")["is_trusted"] is False


def test_the_id_of_a_trusted_repository_is_private_and_stays_the_same(mngr: MngrProgram) -> None:
    write_settings(mngr, '[project]\nsetup = "true"\n')
    mngr("trust", "--yes")
    path = mngr.repo / ".git" / "mngr-id"
    before = path.read_text()
    assert path.stat().st_mode & 0o777 == 0o600
    mngr("config", "set", "project.lint", "true")
    assert path.read_text() == before
    assert mngr.run_json("trust", "--show")["is_trusted"] is True


def test_a_project_without_git_is_trusted_by_its_path(mngr: MngrProgram, tmp_path: Path) -> None:
    project = tmp_path / "plain"
    (project / ".mngr").mkdir(parents=True)
    (project / ".mngr/settings.toml").write_text('[project]\nsetup = "true"\n')
    mngr("trust", "--yes", cwd=project)
    assert '"is_trusted": true' in mngr("trust", "--show", "--format", "json", cwd=project).out


def write_conftest(mngr: MngrProgram) -> Path:
    """Add a test and a conftest.py that leaves a mark, and return the path of the mark."""
    mark = mngr.repo / "ran"
    (mngr.repo / "tests").mkdir()
    (mngr.repo / "tests" / "conftest.py").write_text(f"open({str(mark)!r}, 'w')\n")
    (mngr.repo / "tests" / "test_x.py").write_text("def test_x():\n    pass\n")
    (mngr.repo / "tutorial.sh").write_text(f"# leave a mark\ntouch {mark}\n")
    (mngr.repo / ".gitignore").write_text("ran\n")
    run_git(mngr.repo, "add", "-A")
    run_git(mngr.repo, "commit", "-q", "-m", "tests")
    return mark


@pytest.mark.parametrize(
    "words", [("e2e", "audit", "--program", "true"), ("tutorial", "sync"), ("tutorial", "fill", "--program", "true")]
)
def test_code_of_a_project_without_settings_runs_only_after_trust(mngr: MngrProgram, words: tuple[str, ...]) -> None:
    mark = write_conftest(mngr)
    (mngr.repo / "tutorial.sh").write_text(
        "##########\n# Empty\n##########\n\n##########\n# One\n##########\n\n# mark\ntouch x\n"
    )
    run_git(mngr.repo, "commit", "-qam", "headings")
    refusal = mngr(*words, code=1).err
    assert "and you have not trusted this project" in refusal
    assert f"if you trust it: mngr trust {mngr.repo}" in refusal
    assert not mark.exists() and mngr.list_agents() == []


def test_the_audit_runs_the_tests_of_a_trusted_project_without_settings(mngr: MngrProgram) -> None:
    mark = write_conftest(mngr)
    mngr.env["MNGR__PROJECT__PYTEST"] = f"{sys.executable} -m pytest"
    mngr("trust", "--yes")
    assert mngr.run_json("trust", "--show")["is_recorded"] is True
    mngr("e2e", "audit", "--program", "true", "--modes", "nop", code=None)
    assert mark.exists()
    mark.unlink()
    mngr("trust", "--revoke")
    mngr("e2e", "audit", "--program", "true", "--modes", "nop", code=1)
    assert not mark.exists()
