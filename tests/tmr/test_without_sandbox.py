"""Without bubblewrap, mngr refuses to run a project's tests. Only `--isolation off` and the demo go without."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import MngrProgram, run_git
from tests.support.no_bwrap import make_path_without_bwrap
from tests.support.paths import ROOT

REFUSAL = "mngr cannot isolate the tests on this machine: bubblewrap (bwrap) is not installed\n"
INSTALL = "Hint: apt-get install bubblewrap; or run the tests without a sandbox: "
SENTENCE = "mngr ran tests without a sandbox: bubblewrap (bwrap) is not installed"


@pytest.fixture
def bare_mngr(mngr: MngrProgram, tmp_path: Path) -> MngrProgram:
    """The program on a machine without bubblewrap, in a project whose only test leaves a mark when it runs."""
    mngr.env["PATH"] = make_path_without_bwrap(tmp_path / "bin", mngr.env["PATH"])
    mngr.env["MNGR__PROJECT__PYTEST"] = f"{sys.executable} -m pytest -q -p no:cacheprovider -p no:mngr"
    write_test(mngr.repo, tmp_path / "mark", "assert True")
    return mngr


def write_test(repo: Path, mark: Path, check: str) -> None:
    (repo / "test_mark.py").write_text(f"def test_mark():\n    open({str(mark)!r}, 'w').close()\n    {check}\n")
    run_git(repo, "add", "-A")
    run_git(repo, "commit", "-qm", "Add a test")


def test_tmr_run_is_refused_before_a_run_or_agent_exists(bare_mngr: MngrProgram, tmp_path: Path) -> None:
    for words in (["test_mark.py"], ["test_mark.py", "--dry-run"]):
        result = bare_mngr("tmr", "run", *words, "--", "-x", code=1)
        assert REFUSAL + INSTALL + f"mngr tmr run {' '.join(words)} --isolation off -- -x\n" in result.err
    assert not (bare_mngr.repo / ".mngr/runs").exists() and bare_mngr.list_agents() == []
    assert not (tmp_path / "mark").exists()


def test_tmr_verify_is_refused_and_runs_with_isolation_off(bare_mngr: MngrProgram, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    run_git(bare_mngr.repo, "checkout", "-qb", "feature")
    write_test(bare_mngr.repo, mark, "assert 1 + 1 == 2")
    result = bare_mngr("tmr", "verify", "feature", "--base", "main", code=1)
    assert REFUSAL + INSTALL + "mngr tmr verify feature --base main --isolation off\n" in result.err
    assert not mark.exists()
    receipts = tmp_path / "receipts"
    words = ["tmr", "verify", "feature", "--base", "main", "--runs", "1", "--isolation", "off"]
    bare_mngr(*words, "--output", str(receipts), code=None)
    assert mark.exists()
    (receipt,) = receipts.iterdir()
    assert json.loads(receipt.read_text())["isolation"] == "none: --isolation off"
    mark.unlink()
    result = bare_mngr("tmr", "verify", "--receipt", str(receipt), code=1)
    assert REFUSAL + INSTALL + f"mngr tmr verify --receipt {receipt} --isolation off\n" in result.err
    assert not mark.exists()


@pytest.mark.agents
def test_resume_and_integrate_are_refused_and_run_with_isolation_off(bare_mngr: MngrProgram, tmp_path: Path) -> None:
    words = ["tmr", "run", "--isolation", "off", "--name", "nightly", "--runs", "1", "--no-integrate"]
    bare_mngr(*words, code=None)
    run_path = bare_mngr.repo / ".mngr/runs/nightly"
    plan = json.loads((run_path / "run.json").read_text())
    (run_path / "run.json").write_text(json.dumps({**plan, "isolation": "on"}))
    (tmp_path / "mark").unlink()
    for verb in ("resume", "integrate"):
        result = bare_mngr("tmr", verb, "nightly", code=1)
        assert REFUSAL + INSTALL + f"mngr tmr {verb} nightly --isolation off\n" in result.err
    assert not (tmp_path / "mark").exists()
    bare_mngr("tmr", "integrate", "nightly", "--isolation", "off")
    for text in ((run_path / "PR.md").read_text().replace("`", ""), (run_path / "report/index.html").read_text()):
        assert "mngr ran tests without a sandbox: --isolation off" in text


@pytest.mark.agents
def test_demo_without_bubblewrap_says_so_in_its_report(bare_mngr: MngrProgram) -> None:
    result = bare_mngr("demo", "tests/test_look.py::test_list_sorted", "--no-open", timeout=300)
    assert "the tests run without a sandbox: bubblewrap (bwrap) is not installed\n" in result.err
    (run_path,) = [path.parent for path in (bare_mngr.repo / "mngr-demo/.mngr/runs").glob("*/run.json")]
    assert SENTENCE in (run_path / "PR.md").read_text().replace("`", "")
    assert SENTENCE in (run_path / "report/index.html").read_text()
    for receipt in run_path.glob("tasks/*/receipt.json"):
        assert json.loads(receipt.read_text())["isolation"] == "none: bubblewrap (bwrap) is not installed"


@pytest.mark.agents
def test_make_demo_without_bubblewrap_goes_without_and_says_so(bare_mngr: MngrProgram, tmp_path: Path) -> None:
    temp_dir = tmp_path / "tmp"
    temp_dir.mkdir()
    argv = ["sh", str(ROOT / "examples/demo.sh"), "tests/test_look.py::test_list_sorted"]
    completed = subprocess.run(
        argv, cwd=tmp_path, env={**bare_mngr.env, "TMPDIR": str(temp_dir)}, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert completed.returncode == 0, completed.stdout + completed.stderr
    assert "# There is no sandbox for the tests on this machine." in completed.stdout
    assert "without a sandbox" in completed.stdout.partition("$ sed -n 1,40p")[2]
