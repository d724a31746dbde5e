"""Branches that try to configure their own verification: to run their set-up, to leave the sandbox, to poison caches."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest

from mngr.testkit.contract.mngr_program import commit_file
from tests.conftest import MngrProgram, run_git

SCRIPT = "echo a trusted run\n. scripts/helper.sh\nmkdir -p .venv\necho trusted >.venv/origin\n"
SETTINGS = '[project]\nsetup = "sh scripts/setup.sh"\n'
PROGRAM = "def add(one, other):\n    return one + other\n"
TEST = "from sums import add\n\n\ndef test_passes():\n    assert add(1, 1) == 2\n"


@pytest.fixture
def project(mngr: MngrProgram) -> MngrProgram:
    """Return mngr in a project with a trusted set-up script and one test, on the branch main."""
    mngr.env["MNGR__PROJECT__PYTEST"] = f"{sys.executable} -m pytest -q -p no:cacheprovider -p no:mngr"
    write(mngr.repo, ".gitignore", "__pycache__/\n.venv/\n")
    write(mngr.repo, "scripts/setup.sh", SCRIPT)
    write(mngr.repo, "scripts/helper.sh", "\n")
    write(mngr.repo, ".mngr/settings.toml", SETTINGS)
    write(mngr.repo, "sums.py", PROGRAM)
    write(mngr.repo, "tests/test_one.py", TEST)
    run_git(mngr.repo, "add", "-A")
    run_git(mngr.repo, "commit", "-qm", "project")
    mngr("trust", "--yes")
    return mngr


def write(repo: Path, name: str, text: str) -> None:
    (repo / name).parent.mkdir(parents=True, exist_ok=True)
    (repo / name).write_text(text)


def make_branch(repo: Path, files: dict[str, str], test: str = TEST) -> None:
    """Create the branch `hostile` with these files and a changed test, and return to main."""
    run_git(repo, "checkout", "-qb", "hostile")
    for name, text in files.items():
        write(repo, name, text)
    run_git(repo, "add", "-Af")
    commit_file(repo, "tests/test_one.py", f"{test}    assert 2 + 2 == 4\n")
    run_git(repo, "checkout", "-q", "main")


def verify(mngr: MngrProgram, *words: str, code: int = 0) -> list[dict[str, object]]:
    """Verify a branch and return its receipts."""
    receipts: list[dict[str, object]] = mngr.run_json("tmr", "verify", *words, "--runs", "1", code=code)["receipts"]
    return receipts


@pytest.mark.agents
@pytest.mark.parametrize("file", ["settings.toml", "settings.local.toml"])
def test_the_set_up_in_a_branchs_own_settings_never_runs(project: MngrProgram, tmp_path: Path, file: str) -> None:
    mark = tmp_path / "mark"
    make_branch(project.repo, {f".mngr/{file}": f'[project]\nsetup = "touch {mark}"\n'})
    (receipt,) = verify(project, "hostile", code=4)
    assert receipt["verdict"] == "unverified" and f".mngr/{file}" in str(receipt["reason"])
    (receipt,) = verify(project, "hostile", "--trust-setup")
    assert receipt["verdict"] == "confirmed"
    assert not mark.exists()


@pytest.mark.agents
def test_a_branch_that_is_checked_out_cannot_leave_its_sandbox(project: MngrProgram, tmp_path: Path) -> None:
    mark, secret = tmp_path / "mark", tmp_path / "secret"
    secret.write_text("key")
    settings = f'{SETTINGS}[commands.tmr.verify]\nisolation = "off"\n[sandbox]\nshow = ["{secret}"]\n'
    code = f"assert not os.path.exists({str(secret)!r})\n    os.close(os.open({str(mark)!r}, os.O_CREAT))\n"
    test = f"import os\nfrom sums import add\n\n\ndef test_out():\n    assert add(1, 1) == 2\n    {code}"
    make_branch(project.repo, {".mngr/settings.toml": settings}, test)
    run_git(project.repo, "checkout", "-q", "hostile")
    words = ("HEAD", "--base", "main")
    assert [receipt["verdict"] for receipt in verify(project, *words, code=4)] == ["unverified"]
    (receipt,) = verify(project, *words, "--trust-setup")
    assert (
        receipt["verdict"] == "confirmed" and str(receipt["isolation"]).startswith("bubblewrap") and not mark.exists()
    )


def test_a_changed_set_up_script_is_unverified_and_never_reaches_the_trusted_cache(
    project: MngrProgram, tmp_path: Path
) -> None:
    mark = tmp_path / "mark"
    script = f"echo x >>{mark}\nmkdir -p .venv\necho hostile >.venv/origin\n"
    test = f'{TEST}    assert open(".venv/origin").read() == "hostile\\n"\n'
    make_branch(project.repo, {"scripts/setup.sh": script}, test)
    (receipt,) = verify(project, "hostile", code=4)
    assert receipt["verdict"] == "unverified" and "scripts/setup.sh" in str(receipt["reason"])
    assert not mark.exists()
    (receipt,) = verify(project, "hostile", "--trust-setup", "--fresh")
    assert receipt["verdict"] == "confirmed" and not mark.exists()
    project("create", "foo", "--", "sleep", "1000")
    assert (project.get_work_dir("foo") / ".venv/origin").read_text() == "trusted\n"


@pytest.mark.agents
def test_set_up_uses_the_files_of_the_base_even_those_that_no_setting_names(
    project: MngrProgram, tmp_path: Path
) -> None:
    mark = tmp_path / "mark"
    make_branch(project.repo, {"scripts/helper.sh": f"touch {mark}\n"})
    assert [receipt["verdict"] for receipt in verify(project, "hostile")] == ["confirmed"]
    assert not mark.exists()


@pytest.mark.agents
def test_results_that_a_repository_contains_do_not_count(project: MngrProgram) -> None:
    make_branch(project.repo, {}, "def test_fails():\n    assert 1 == 2\n")
    assert [receipt["verdict"] for receipt in verify(project, "hostile", code=4)] == ["refuted"]
    (results,) = (project.home / "cache/results").glob("*/verify")
    for file in results.iterdir():
        write(project.repo, f".mngr/cache/verify/{file.name}", file.read_text().replace('"fail"', '"pass"'))
    shutil.rmtree(results)
    assert [receipt["verdict"] for receipt in verify(project, "hostile", code=4)] == ["refuted"]


@pytest.mark.parametrize("place", [".mngr/runs/r", "elsewhere/r"])
def test_a_run_that_a_repository_contains_is_not_used(project: MngrProgram, tmp_path: Path, place: str) -> None:
    mark, head = tmp_path / "mark", run_git(project.repo, "rev-parse", "HEAD")
    plan = {"v": 1, "kind": "tmr", "base": head, "pytest": ["sh", "-c", f"touch {mark}"], "isolation": "off"}
    write(project.repo, f"{place}/run.json", json.dumps(plan))
    run_git(project.repo, "clone", "-q", "--bare", ".", f"{place}/repo.git")
    if place == "elsewhere/r":
        (project.repo / ".mngr/runs").symlink_to("../elsewhere")
    run_git(project.repo, "add", "-Af")
    run_git(project.repo, "commit", "-qm", "a run")
    for command in ("resume", "integrate", "retry", "changes", "report"):
        assert "has no record of the run" in project("tmr", command, "r", code=1).err
    assert not mark.exists()


def test_an_agent_on_an_untrusted_branch_does_not_fill_the_cache_of_the_others(project: MngrProgram) -> None:
    run_git(project.repo, "checkout", "-qb", "hostile")
    commit_file(project.repo, "scripts/helper.sh", "mkdir -p .venv; echo hostile >.venv/poison\n")
    run_git(project.repo, "checkout", "-q", "main")
    project("create", "bad", "--branch", "hostile:bad", "--", "sleep", "1000")
    assert (project.get_work_dir("bad") / ".venv/poison").exists()
    project("create", "good", "--", "sleep", "1000")
    assert not (project.get_work_dir("good") / ".venv/poison").exists()
    project("create", "two", "--branch", "hostile:two", "--", "sleep", "1000")
    logs = [log.read_text() for log in project.home.glob("agents/*/setup.log")]
    assert logs == ["a trusted run\n"] * 2


def test_a_branch_that_the_user_reviews_does_not_fill_the_cache_of_the_default_branch(project: MngrProgram) -> None:
    run_git(project.repo, "checkout", "-qb", "hostile")
    commit_file(project.repo, "scripts/helper.sh", "mkdir -p .venv; echo hostile >.venv/poison\n")
    project("create", "reviewed", "--", "sleep", "1000")
    assert (project.get_work_dir("reviewed") / ".venv/poison").exists()
    run_git(project.repo, "checkout", "-q", "main")
    project("create", "good", "--", "sleep", "1000")
    assert not (project.get_work_dir("good") / ".venv/poison").exists()
    run_git(project.repo, "checkout", "-q", "hostile")
    project("create", "again", "--", "sleep", "1000")
    logs = [log.read_text() for log in project.home.glob("agents/*/setup.log")]
    assert logs == ["a trusted run\n"] * 2, "the third agent reuses a result"


def set_up_with(project: MngrProgram, script: str) -> None:
    """Replace the trusted set-up script of the project."""
    commit_file(project.repo, "scripts/setup.sh", script)


def test_no_test_runs_where_a_link_is_in_place_of_the_environment(project: MngrProgram, tmp_path: Path) -> None:
    """The sandbox would mount the directory that the link leads to."""
    (tmp_path / "secret").write_text("secret-of-the-user")
    commit_file(project.repo, ".gitignore", "__pycache__/\n/.venv/\n")
    set_up_with(project, "python3 -m venv --without-pip --system-site-packages .venv\n")
    test = f"def test_passes():\n    print(open({str(tmp_path / 'secret')!r}).read())\n    assert 1 == 2\n"
    run_git(project.repo, "checkout", "-qb", "hostile")
    (project.repo / ".venv").symlink_to("../../../..")
    (project.repo / "tests/test_one.py").write_text(test)
    run_git(project.repo, "add", "-Af")
    run_git(project.repo, "commit", "-qm", "a link")
    run_git(project.repo, "checkout", "-q", "main")
    result = project("--format", "json", "tmr", "verify", "hostile", "--runs", "1", code=None)
    assert result.code == 1 and "the commit replaces .venv, which set-up created" in result.err
    assert "secret-of-the-user" not in result.out + result.err


@pytest.mark.parametrize("mode", ["on", "off"])
def test_git_settings_of_a_set_up_neither_run_programs_nor_move_the_workspace(
    project: MngrProgram, tmp_path: Path, mode: str
) -> None:
    (tmp_path / "docs").mkdir()
    project("config", "set", "--user", "sandbox.setup", mode)
    set_up_with(
        project,
        f"""
        git config filter.x.smudge 'touch {tmp_path}/mark; cat'
        git config filter.x.clean 'touch {tmp_path}/mark; cat'
        git config core.worktree {tmp_path}/docs
        echo '* filter=x' >.git/info/attributes
        mkdir -p .venv
        """,
    )
    make_branch(project.repo, {}, "def test_passes():\n    assert 1 == 2\n")
    assert [receipt["verdict"] for receipt in verify(project, "hostile", code=4)] == ["refuted"]
    assert not (tmp_path / "mark").exists() and list((tmp_path / "docs").iterdir()) == []
