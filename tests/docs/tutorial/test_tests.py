"""Tutorials of other programs: blocks, the tests that cite them, and agents that write the tests."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mngr.e2e import E2eSession, expect
from tests.docs.tutorial.conftest import agents, run_all

TOUR = """\
cat > ../tour.sh <<'EOF'
# see all agents
mngr list

# which mngr is this?
mngr version
EOF"""
TEST = '''\
mkdir ../tests
cat > ../tests/test_tour.py <<'EOF'
def test_list_shows_agents(e2e):
    e2e.write_tutorial_block("""
        # see all agents
        mngr list
    """)
    assert e2e.run("mngr list").exit_code == 0
EOF'''


def test_a_script_is_split_into_blocks(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # list the blocks of a tutorial; a tutorial is a script like this one
    cat > ../tour.sh <<'EOF'
    # see all agents
    mngr list

    # which mngr is this?
    mngr version
    EOF
    mngr tutorial blocks ../tour.sh
    """)
    expect(e2e.run("mngr tutorial blocks ../tour.sh")).to_fail(1).to_match_lines("""
        Error: there is no tutorial script [ROOT]/place/tour.sh
        Hint: name the tutorial script; to save its name: mngr config set tutorial.file FILE
    """)
    run_all(e2e, TOUR)
    result = e2e.run("mngr tutorial blocks ../tour.sh", comment="show the blocks")
    expect(result).to_succeed().to_match_lines("""
        LINE  ID            COMMANDS  SECTION  BLOCK
        1     <first>  1                  see-all-agents
        4     <second>  1                  which-mngr-is-this
    """)
    blocks = json.loads(e2e.run("mngr tutorial blocks ../tour.sh --format json").stdout)["blocks"]
    assert [(block["id"], block["commands"]) for block in blocks] == [
        (e2e.names["first"], ["mngr list"]),
        (e2e.names["second"], ["mngr version"]),
    ]


def test_check_names_the_blocks_that_no_test_cites(e2e: E2eSession) -> None:
    e2e.write_tutorial_block('''
    # find blocks that no test cites; in this example, no test cites the second block, so the check fails
    mkdir ../tests
    cat > ../tests/test_tour.py <<'EOF'
    def test_list_shows_agents(e2e):
        e2e.write_tutorial_block("""
            # see all agents
            mngr list
        """)
        assert e2e.run("mngr list").exit_code == 0
    EOF
    mngr tutorial check ../tour.sh ../tests || test $? -eq 1
    ''')
    run_all(e2e, TOUR, TEST)
    result = e2e.run(
        "mngr tutorial check ../tour.sh ../tests", comment="no test cites one of two blocks, so the check fails"
    )
    expect(result).to_fail(1).to_match_lines("""
        [PATH]/tour.sh:4: gap: no test cites this block: which-mngr-is-this
        1 of 2 blocks are cited
        Error: [PATH]/tour.sh and its tests differ: 1 gap
        Hint: let an agent write the missing tests: mngr tutorial sync; or cite the blocks with e2e.write_tutorial_block(...)
    """)
    run_all(e2e, "mngr tutorial check ../tour.sh ../tests || test $? -eq 1")


def test_check_fix_updates_a_stale_citation(e2e: E2eSession) -> None:
    e2e.write_tutorial_block(r"""
    # update the copy of a block in a test after the block has changed
    printf '# see all agents\nmngr list --ids\n' > ../tour.sh
    mngr tutorial check ../tour.sh ../tests --fix
    mngr tutorial check ../tour.sh ../tests
    """)
    run_all(e2e, TEST, r"printf '# see all agents\nmngr list --ids\n' > ../tour.sh")
    result = e2e.run("mngr tutorial check ../tour.sh ../tests", comment="change the script")
    expect(result).to_fail(1).to_contain("stale", "-mngr list\n", "+mngr list --ids\n")
    result = e2e.run("mngr tutorial check ../tour.sh ../tests --fix", comment="update the citation")
    expect(result).to_succeed().to_contain("test_list_shows_agents rewritten")
    result = e2e.run("mngr tutorial check ../tour.sh ../tests")
    expect(result).to_succeed().to_equal("1 of 1 blocks are cited")
    expect((e2e.cwd / "../tests/test_tour.py").read_text()).to_contain("        mngr list --ids\n")


def test_sync_lets_an_agent_write_the_missing_tests(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # let an agent write the missing tests; the rule-based agent needs no model, and writes tests for the output of each block
    # (the setting project.pytest is the command that runs the tests; this example sets it to a command that does nothing)
    cp ../tour.sh tutorial.sh
    mkdir -p tests
    git add tutorial.sh
    git commit -qm 'A tour'
    mngr trust --yes
    mngr tutorial sync tutorial.sh tests -S project.pytest=:
    """)
    run_all(e2e, r"printf '# which mngr is this?\nmngr version\n' > ../tour.sh")
    run_all(
        e2e,
        "cp ../tour.sh tutorial.sh && mkdir -p tests && git add tutorial.sh && git commit -qm 'A tour'",
        "mngr trust --yes",
    )
    result = e2e.run(
        "mngr tutorial sync tutorial.sh tests -S project.pytest=:", comment="the agent kind mechanic needs no model"
    )
    expect(result).to_succeed().to_match_lines("""
        ...
        which-mngr-is-this: tests/test_observed.py::test_which_mngr_is_this (observed)
        ...
        the work is on <branch>: git diff ...
    """)
    expect(e2e.run("git show <branch>:tests/test_observed.py")).to_succeed().to_contain(
        "@pytest.mark.observed",
        "e2e.write_tutorial_block(",
        "    # which mngr is this?\n    mngr version\n",
        "e2e.run(",
    )
    (agent,) = agents(e2e).values()
    assert (agent["kind"], agent["branch"]) == ("mechanic", e2e.names["branch"])


@pytest.mark.agents
def test_fill_proposes_blocks_for_an_empty_heading(e2e: E2eSession, shop: Path) -> None:
    e2e.write_tutorial_block(r"""
    # let an agent write a block for a heading that has none, here with a scripted agent; mngr runs the new block
    printf '##########\n# Greetings\n##########\n' > blanks.sh
    git add blanks.sh
    git commit -qm 'A blank'
    mngr trust --yes
    mngr tutorial fill blanks.sh --program git --agent player -- '[
        {"write": {"path": "blanks.sh", "append": "\n# say hello\necho hello\n"}},
        {"commit": "[FIX_TUTORIAL] Say hello"}
    ]'
    """)
    blank = "##########\n# Greetings\n##########\n"
    (shop / "blanks.sh").write_text(blank)
    run_all(e2e, "git add blanks.sh && git commit -qm 'A blank'", "mngr trust --yes")
    steps = """'[
        {"write": {"path": "blanks.sh", "append": "\\n# say hello\\necho hello\\n"}},
        {"commit": "[FIX_TUTORIAL] Say hello"}
    ]'"""
    result = e2e.run(
        f"mngr tutorial fill blanks.sh --program git --agent player -- {steps}", comment="let an agent propose blocks"
    )
    expect(result).to_succeed()
    expect(result.stderr).to_contain("Greetings: # say hello: works")
    expect(result.stdout).to_contain("+# say hello\n+echo hello\n")
    assert (shop / "blanks.sh").read_text() == blank
    expect(e2e.run("mngr tutorial fill blanks.sh --program git --agent mechanic")).to_fail(1).to_match_lines("""
        Error: the agent kind mechanic cannot write commands, because it has no model
        Hint: choose another agent kind: mngr tutorial fill --agent claude
    """)


def test_install_command_writes_a_slash_command(e2e: E2eSession, shop: Path) -> None:
    e2e.write_tutorial_block("""
    # install a slash command with which Claude Code writes missing tests
    mngr tutorial install-command claude
    """)
    result = e2e.run("mngr tutorial install-command claude", comment="install a slash command")
    expect(result).to_succeed().to_match_lines("wrote [CWD]/.claude/commands/sync-tutorial-to-e2e-tests.md")
    command_file = shop / ".claude/commands/sync-tutorial-to-e2e-tests.md"
    expect(command_file.read_text()).to_contain("mngr tutorial check")
    expect(e2e.run("mngr tutorial install-command clade")).to_fail(2).to_match_lines("""
        Error: mngr cannot install the slash command for 'clade'
        Hint: choose one of: claude, codex
    """)


def test_init_starts_a_tutorial_in_a_project(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # create a tutorial in a project that has none
    git init -q ../other
    (cd ../other && mngr tutorial init --program git)
    """)
    run_all(e2e, "git init -q ../other")
    result = e2e.run(
        "(cd ../other && mngr tutorial init --program git)", comment="create a tutorial in a project that has none"
    )
    expect(result).to_succeed().to_contain("wrote tutorial.sh\n", "wrote .mngr/settings.toml\n")
    e2e.cd("../other")
    expect(e2e.run("mngr tutorial check", comment="the only block is cited")).to_succeed()


def test_coverage_shows_which_commands_the_tutorial_covers(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # show which commands of a program appear in its tutorial, and which of them the tests run
    mngr tutorial coverage ../tour.sh ../tests --program mngr
    """)
    run_all(e2e, TOUR, TEST)
    result = e2e.run("mngr tutorial coverage ../tour.sh ../tests --program mngr", comment="show the columns")
    expect(result).to_succeed().to_match("^mngr list +yes +no ").to_match("^mngr stop +no +no ")
    expect(result).to_contain("2 of ")
    expect(e2e.run("mngr tutorial coverage ../tour.sh ../tests --program no-such")).to_fail(1).to_contain(
        "the program no-such is not installed"
    )
