"""The whole workflow on the sample project."""

from __future__ import annotations

from pathlib import Path

import pytest

from mngr.e2e import E2eSession, expect
from tests.docs.tutorial.conftest import agents

pytestmark = pytest.mark.agents


def test_the_demo_fixes_a_test_and_can_be_removed(e2e: E2eSession, shop: Path) -> None:
    e2e.write_tutorial_block("""
    # run mngr's demo with one test of a sample project: an agent repairs the test, and mngr writes a branch, PR.md and a report
    mngr demo tests/test_look.py::test_list_sorted --dir ../pantry --no-open
    """)
    pantry = shop.parent / "pantry"
    command = "mngr demo tests/test_look.py::test_list_sorted --dir ../pantry --no-open"
    result = e2e.run(command, comment="no model is needed", timeout=60)
    expect(result).to_succeed()
    (run,) = pantry.glob(".mngr/runs/*/run.json")
    branch = f"mngr/{run.parent.name}/integrated"
    expect(result.stdout).to_match_lines(f"""
        Tests before:      1 fail
        Agents' tasks:     1 fixed
          fixed     tests/test_look.py::test_list_sorted
        Result:            No regressions. 1 test fixed, 0 still failing, 0 flaky. Branch {branch}: 1 change in 1 commit
          ... \\[FIX_TEST] test_list_sorted: use `--sort` instead of `--order`, as the program suggests
        Pull request text: {run.parent}/PR.md
        Report:            {run.parent}/report/index.html
        Next:              cd {pantry}; mngr tmr status; mngr tmr changes; git log --stat {branch}
        Remove everything: (cd {pantry} && mngr tmr clean) && rm -r {pantry}
    """)
    e2e.cd("../pantry")
    expect(e2e.run("git status --porcelain")).to_succeed().to_be_empty()
    expect(e2e.run(f"git diff HEAD..{branch}")).to_contain("\n-", "--order", "\n+", "--sort")
    assert "test_list_sorted" in (run.parent / "PR.md").read_text()
    assert "test_list_sorted" in (run.parent / "report/index.html").read_text()
    e2e.cd("../shop")
    assert len(agents(e2e)) == 1
    remove_command = result.stdout.rstrip("\n").split("\n")[-1].removeprefix("Remove everything: ")
    expect(e2e.run(remove_command, comment="as the hint says")).to_succeed()
    assert agents(e2e) == {}
    assert not pantry.exists()
