"""`mngr tmr verify`: re-runs a branch's tests and detects weakened ones."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.conftest import MngrProgram, run_git

pytestmark = pytest.mark.agents

TEST = '''import calc


def test_add():
    """The sum of both."""
    assert calc.add(1, 2) == {total}


def test_nothing():
    """Adding nothing."""
    assert calc.add(1, 0) == 1
'''


def commit(repo: Path, message: str, **files: str) -> None:
    for name, text in files.items():
        path = repo / {"calc": "calc.py", "test": "tests/test_calc.py"}[name]
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    run_git(repo, "add", "-A")
    run_git(repo, "commit", "-qm", message)


def test_verify_confirms_a_real_fix_and_refutes_a_weakened_test(mngr: MngrProgram, tmp_path: Path) -> None:
    repo = mngr.repo
    mngr.env["MNGR__PROJECT__PYTEST"] = f"{sys.executable} -m pytest -q -p no:cacheprovider -p no:mngr"
    (repo / "conftest.py").write_text("")
    broken_code = "def add(a, b):\n    return a + b + (a == 1 and b == 2)\n"
    commit(repo, "calc", calc=broken_code, test=TEST.format(total=3))
    run_git(repo, "checkout", "-qb", "good")
    added_assert = "    assert calc.add(2, 2) == 4\n"
    improved_test = TEST.format(total=3).replace("== 3\n", f"== 3\n{added_assert}")
    commit(repo, "count right", calc="def add(a, b):\n    return a + b\n", test=improved_test)
    run_git(repo, "checkout", "-qb", "bad", "main")
    commit(repo, "green", test=TEST.format(total=3).replace("== 3", ">= 3"))
    run_git(repo, "checkout", "-q", "main")

    report, receipts_dir = tmp_path / "report.xml", tmp_path / "receipts"
    good = mngr.run_json("tmr", "verify", "good", "--runs", "1", "--junit", str(report), "--output", str(receipts_dir))
    (receipt,) = good["receipts"]
    assert (receipt["test"], receipt["verdict"]) == ("tests/test_calc.py::test_add", "confirmed")
    assert [proof["is_needed"] for proof in receipt["proofs"]] == [True] and good["findings"] == []
    assert ElementTree.parse(report).getroot().attrib["failures"] == "0"
    (file,) = receipts_dir.iterdir()
    assert json.loads(file.read_text()) == receipt

    refuted = mngr("tmr", "verify", "bad", "--runs", "1", "--junit", str(report), code=4)
    assert "tests/test_calc.py::test_add REFUTED: it passes, but tests/test_calc.py:6: test_add" in refuted.err
    assert refuted.out.splitlines()[0].startswith("tests/test_calc.py:6 refuse")
    case = ElementTree.parse(report).getroot().find("testcase/failure")
    assert case is not None and case.attrib["type"] == "refuted"
    assert run_git(repo, "status", "--porcelain") == "" and mngr.list_agents() == []

    run_git(repo, "checkout", "-qb", "code")
    commit(repo, "other words", calc="def add(a, b):\n    return b + a\n")
    assert "changes no test" in mngr("tmr", "verify", "code", "--base", "main", code=2).err


def test_verify_explains_invalid_input(mngr: MngrProgram, tmp_path: Path) -> None:
    assert "mngr tmr verify needs a branch, a commit or --receipt FILE" in mngr("tmr", "verify", code=2).err
    assert "there is no commit 'nowhere'" in mngr("tmr", "verify", "nowhere", code=1).err
    assert "has no changes since" in mngr("tmr", "verify", "HEAD", "--base", "HEAD", code=2).err
    assert "cannot read" in mngr("tmr", "verify", "--receipt", str(tmp_path / "none"), code=1).err
    (tmp_path / "some.json").write_text('{"verdict": "confirmed"}')
    assert "is not a receipt" in mngr("tmr", "verify", "--receipt", str(tmp_path / "some.json"), code=1).err
