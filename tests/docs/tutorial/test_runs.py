"""One agent for each test: claims, receipts and the integrated branch."""

from __future__ import annotations

import json
from pathlib import Path
from zipfile import ZipFile

import pytest

from mngr.e2e import E2eSession, expect
from tests.docs.tutorial.conftest import agents, run_all

TOY = """\
mkdir -p ../toy/tests
echo "echo 'welcome to the new shop'" > ../toy/greet.sh
cat > ../toy/tests/test_greet.py <<'EOF'
from pathlib import Path

from mngr.e2e import E2eSession, expect

GREET = Path(__file__).parents[1] / "greet.sh"


def test_greet(e2e: E2eSession) -> None:
    result = e2e.run(f"sh {GREET}")
    expect(result).to_succeed()
    expect(result.stdout).to_contain("welcome to the old shop")
EOF
git -C ../toy init -q
git -C ../toy add .
git -C ../toy commit -qm 'A toy'"""
EASIER = """\
git switch -q -c easier
sed -i '/welcome to the old shop/d' tests/test_greet.py
git commit -qam 'Easier'
git switch -q -"""


@pytest.fixture
def toy(e2e: E2eSession, shop: Path) -> Path:
    """A project with an outdated test."""
    run_all(e2e, TOY)
    e2e.cd("../toy")
    return shop.parent / "toy"


@pytest.mark.agents
def test_a_run_is_shown_as_status_and_report(e2e: E2eSession, toy: Path) -> None:
    e2e.write_tutorial_block("""
    # create a project with an outdated test, in which one word is wrong
    mkdir -p ../toy/tests
    echo "echo 'welcome to the new shop'" > ../toy/greet.sh
    cat > ../toy/tests/test_greet.py <<'EOF'
    from pathlib import Path

    from mngr.e2e import E2eSession, expect

    GREET = Path(__file__).parents[1] / "greet.sh"


    def test_greet(e2e: E2eSession) -> None:
        result = e2e.run(f"sh {GREET}")
        expect(result).to_succeed()
        expect(result.stdout).to_contain("welcome to the old shop")
    EOF
    git -C ../toy init -q
    git -C ../toy add .
    git -C ../toy commit -qm 'A toy'
    """)
    e2e.write_tutorial_block("""
    # start a test run with the rule-based agent, which needs no model; mngr re-runs each test that an agent claims to have repaired
    cd ../toy
    mngr tmr run --name greet
    """)
    e2e.write_tutorial_block("""
    # compare each agent's claim with mngr's own result; then list all runs, and print what happened in the run
    mngr tmr status greet
    mngr tmr list
    mngr tmr attach greet
    """)
    e2e.write_tutorial_block("""
    # write the report as web pages with claims, receipts, diffs and a timeline; then write the same pages to a zip file
    mngr tmr report greet
    mngr tmr report greet --export ../greet.zip
    """)
    result = e2e.run("mngr tmr run --name greet", comment="run one agent per test", timeout=90)
    expect(result).to_succeed().to_contain("baseline: 1 fail", "1 fixed: ")
    (receipt,) = toy.glob(".mngr/runs/greet/tasks/*/receipt.json")
    assert json.loads(receipt.read_text())["verdict"] == "confirmed"
    assert "the old shop" in (toy / "tests/test_greet.py").read_text()  # the checkout is unchanged
    result = e2e.run("mngr tmr status greet", comment="show the claims and what mngr saw")
    expect(result).to_succeed().to_match("^fixed +fixed +confirmed .* tests/test_greet.py::test_greet")
    expect(e2e.run("mngr tmr list")).to_succeed().to_match("^greet +settled +1 fixed")
    expect(e2e.run("mngr tmr attach greet")).to_succeed().to_match("test-greet-[0-9a-f]+: fixed")
    report = toy / ".mngr/runs/greet/report/index.html"
    assert "test_greet" in report.read_text()  # the run wrote it
    expect(e2e.run("mngr tmr report greet", comment="write the report")).to_succeed().to_equal(str(report))
    expect(e2e.run("mngr tmr report greet --export ../greet.zip", comment="export the report")).to_succeed()
    assert "report-greet/index.html" in ZipFile(toy.parent / "greet.zip").namelist()


@pytest.mark.agents
def test_a_run_ends_with_changes_and_a_branch(e2e: E2eSession, toy: Path) -> None:
    e2e.write_tutorial_block("""
    # list the confirmed changes of the run, then show one change in detail
    mngr tmr changes greet
    mngr tmr changes greet "$(mngr tmr changes greet --format '{id}')" --diff
    """)
    e2e.write_tutorial_block("""
    # show the commits of the run's branch and the text of its pull request
    git log --oneline mngr/greet/integrated
    cat .mngr/runs/greet/PR.md
    """)
    expect(e2e.run("mngr tmr run --name greet", comment="run one agent per test", timeout=90)).to_succeed()
    result = e2e.run("mngr tmr changes greet", comment="list the changes")
    expect(result).to_succeed().to_match("^[0-9a-f]{6} .* confirmed .* 1 .* \\[FIX_TEST\\]")
    change_argument = "mngr tmr changes greet \"$(mngr tmr changes greet --format '{id}')\" --diff"
    result = e2e.run(change_argument, comment="show one change line by line")
    expect(result).to_succeed().to_contain(
        "made by:\n  mechanic agent tmr-greet-test-greet-", "\n-", "welcome to the old shop"
    )
    log = e2e.run("git log --oneline mngr/greet/integrated", comment="show the branch")
    expect(log).to_succeed().to_match("^[0-9a-f]+ .*test_greet.*\\n[0-9a-f]+ A toy$")
    expect(e2e.run("cat .mngr/runs/greet/PR.md", comment="show the pull request text")).to_succeed().to_contain(
        "No regressions. 1 test fixed, 0 still failing, 0 flaky.", "test_greet"
    )


@pytest.mark.agents
def test_a_run_can_be_integrated_again_resumed_retried_and_redone(e2e: E2eSession, toy: Path) -> None:
    e2e.write_tutorial_block("""
    # exclude a change from the branch and record why; then include the change again
    mngr tmr integrate greet --without "$(mngr tmr changes greet --format '{id}')" --reason 'the old shop it is'
    mngr tmr integrate greet --with "$(mngr tmr changes greet --format '{id}')"
    """)
    e2e.write_tutorial_block("""
    # continue a run; mngr skips finished tasks
    mngr tmr resume greet
    """)
    e2e.write_tutorial_block("""
    # give a task to a new agent, and add a hint to its prompt
    mngr tmr retry tests/test_greet.py::test_greet -m 'mind the word'
    """)
    e2e.write_tutorial_block("""
    # ask the agent that made a change to revise it; in this example, the command fails, because the agent cannot answer messages
    mngr tmr redo "$(mngr tmr changes greet --format '{id}')" -m 'leave out the comma' || test $? -eq 1
    """)
    expect(e2e.run("mngr tmr run --name greet", comment="run one agent per test", timeout=90)).to_succeed()
    log = e2e.run("git log --oneline mngr/greet/integrated", comment="show the branch")
    change_argument = "\"$(mngr tmr changes greet --format '{id}')\""
    result = e2e.run(
        f"mngr tmr integrate greet --without {change_argument} --reason 'the old shop it is'",
        comment="exclude the change",
    )
    expect(result).to_succeed().to_contain("a person excluded it: the old shop it is")
    expect(e2e.run('test "$(git rev-parse mngr/greet/integrated)" = "$(git rev-parse HEAD)"')).to_succeed()
    result = e2e.run(f"mngr tmr integrate greet --with {change_argument}", comment="include the change again")
    expect(result).to_succeed().to_contain("No regressions. 1 test fixed", "Branch mngr/greet/integrated: ")
    expect(e2e.run("git log --oneline mngr/greet/integrated")).to_equal(log.stdout)
    expect(e2e.run("mngr tmr resume greet", comment="finished tasks are not repeated")).to_succeed().not_to_contain(
        "runs on"
    )
    result = e2e.run(
        "mngr tmr retry tests/test_greet.py::test_greet -m 'mind the word'",
        comment="give the task to a new agent, with a hint",
    )
    expect(result).to_succeed().to_contain("retrying 1 task", "1 fixed: ")
    prompt = next(toy.glob(".mngr/runs/greet/tasks/*/prompt.md")).read_text()
    assert "mind the word" in prompt
    assert len(agents(e2e)) == 2
    redo_command = "mngr tmr redo \"$(mngr tmr changes greet --format '{id}')\" -m 'leave out the comma'"
    result = e2e.run(redo_command, comment="ask the author of a change to revise it")
    expect(result).to_fail(1).to_contain("of kind mechanic, which cannot answer messages", "mngr tmr retry test-greet-")


@pytest.mark.agents
def test_a_run_can_be_verified_forgotten_stopped_and_cleaned(e2e: E2eSession, toy: Path) -> None:
    e2e.write_tutorial_block("""
    # run the tests of a receipt again, and compare the results with the receipt
    mngr tmr verify --receipt .mngr/runs/greet/tasks/*/receipt.json
    """)
    e2e.write_tutorial_block("""
    # print the confirmed tests, the flaky tests and the reasons for excluded changes, then delete all these entries
    mngr tmr memory list
    mngr tmr memory flaky
    mngr tmr memory reasons
    mngr tmr memory forget
    """)
    e2e.write_tutorial_block("""
    # stop a run and all its agents; the agents keep their work
    mngr tmr stop greet
    """)
    e2e.write_tutorial_block("""
    # move the agents of a run to the trash; mngr keeps the run's folder with results, receipts and commits
    mngr tmr clean greet --dry-run
    mngr tmr clean greet
    cd ../shop
    """)
    expect(e2e.run("mngr tmr run --name greet", comment="run one agent per test", timeout=90)).to_succeed()
    (receipt,) = toy.glob(".mngr/runs/greet/tasks/*/receipt.json")
    result = e2e.run(
        "mngr tmr verify --receipt .mngr/runs/greet/tasks/*/receipt.json", comment="repeat the verification"
    )
    expect(result).to_succeed().to_contain("the result is the same: confirmed, it passed 3 of 3 times")
    expect(e2e.run("mngr tmr memory list")).to_succeed().to_match("^fixed +confirmed +greet +tests/test_greet.py")
    expect(e2e.run("mngr tmr memory flaky")).to_succeed().to_equal("no flaky tests known")
    expect(e2e.run("mngr tmr memory reasons")).to_succeed().to_equal("no reasons recorded")
    expect(e2e.run("mngr tmr memory forget")).to_succeed().to_equal("forgot 1 entry")
    expect(e2e.run("mngr tmr stop greet", comment="all agents are already stopped")).to_succeed()
    expect(e2e.run("mngr tmr clean greet --dry-run")).to_succeed().to_contain("would remove 1 agent ")
    expect(e2e.run("mngr tmr clean greet")).to_succeed().to_contain("removed 1 agent ")
    assert agents(e2e) == {}
    expect(e2e.run("git for-each-ref refs/mngr")).to_succeed().to_be_empty()
    assert receipt.exists()


@pytest.mark.agents
def test_verify_refutes_a_branch_that_weakens_a_test(e2e: E2eSession, toy: Path) -> None:
    e2e.write_tutorial_block("""
    # check the tests that a branch changes; in this example, the branch removes a check from a test, so mngr rejects the test
    git switch -q -c easier
    sed -i '/welcome to the old shop/d' tests/test_greet.py
    git commit -qam 'Easier'
    git switch -q -
    mngr tmr verify easier || test $? -eq 4
    """)
    run_all(e2e, EASIER)
    result = e2e.run("mngr tmr verify easier", comment="verify the branch")
    expect(result).to_have_exit_code(4)
    expect(result.stderr).to_contain("tests/test_greet.py::test_greet REFUTED: it passes, but tests/test_greet.py:11")
    expect(result.stdout).to_match("^tests/test_greet.py:11 refuse ")
    expect(e2e.run("git status --porcelain")).to_succeed().to_be_empty()
    assert agents(e2e) == {}


def test_a_file_that_cannot_be_collected_is_blocked_and_the_other_tests_go_on(e2e: E2eSession, toy: Path) -> None:
    e2e.write_tutorial_block("""
    # start a test run with the rule-based agent, which needs no model; mngr re-runs each test that an agent claims to have repaired
    cd ../toy
    mngr tmr run --name greet
    """)
    (toy / "tests/test_broken.py").write_text("import nothing_of_that_name\n")
    run_all(e2e, "git add . && git commit -qm broken")
    result = e2e.run("mngr tmr run", comment="a test that cannot be loaded", timeout=90)
    expect(result).to_fail(4).to_contain("1 blocked, 1 fixed", "blocked: pytest cannot collect the test")
    expect(e2e.run("mngr tmr status nothing")).to_fail(1).to_contain("there is no run 'nothing'")
    expect(e2e.run("mngr tmr retry --run nothing")).to_fail(1).to_contain("there is no run 'nothing'")


POLITE = """\
cat > tests/test_polite.py <<'EOF'
from pathlib import Path

from mngr.e2e import E2eSession, expect

GREET = Path(__file__).parents[1] / "greet.sh"


def test_polite(e2e: E2eSession) -> None:
    expect(e2e.run(f"sh {GREET} --politely")).to_succeed()
EOF"""


@pytest.mark.agents
def test_audit_finds_a_test_that_never_fails(e2e: E2eSession, toy: Path) -> None:
    e2e.write_tutorial_block("""
    # find tests that pass even if the program does nothing; this example contains such a test, so the command fails
    cat > tests/test_polite.py <<'EOF'
    from pathlib import Path

    from mngr.e2e import E2eSession, expect

    GREET = Path(__file__).parents[1] / "greet.sh"


    def test_polite(e2e: E2eSession) -> None:
        expect(e2e.run(f"sh {GREET} --politely")).to_succeed()
    EOF
    mngr trust --yes
    mngr e2e audit tests/test_polite.py --program greet.sh || test $? -eq 4
    """)
    run_all(e2e, POLITE, "mngr trust --yes")
    result = e2e.run("mngr e2e audit tests/test_polite.py --program greet.sh", comment="this test does not notice it")
    expect(result).to_fail(4)
    expect(result.stdout).to_match_lines("""
        tests/test_polite.py:9: vacuous (nop): test_polite still passes when greet.sh does nothing and prints nothing
        tests/test_polite.py:9: vacuous (help): test_polite still passes when greet.sh prints only its usage
        tests/test_polite.py:9: unguarded option (drop): test_polite still passes without the option --politely: `greet.sh --politely`
        1 of 1 tests: 1 vacuous, 1 option unguarded
    """)
    polite = toy / "tests/test_polite.py"
    polite.write_text(polite.read_text().replace(".to_succeed()", '.to_contain("welcome")'))
    result = e2e.run(
        "mngr e2e audit tests/test_polite.py --program greet.sh --modes nop", comment="the test notices it now"
    )
    expect(result).to_succeed()
    expect(result.stdout).to_equal("1 of 1 tests: 0 vacuous")
