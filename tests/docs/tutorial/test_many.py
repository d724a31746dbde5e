"""One agent for each item of a list."""

from __future__ import annotations

from pathlib import Path

from mngr.e2e import E2eSession, expect
from tests.docs.tutorial.conftest import agents, run_all

PAINT = """\
cat > ../paint.json <<'EOF'
[{"reply": "a moment"}, "wait", {"write": {"path": "$MNGR_OUTPUT_DIR/done.txt", "content": "painted\\n"}}]
EOF"""
MAP = "mngr map door wall --name paint --agent player -p 'paint the {item}' --output done.txt --max-agents 2 -- ../paint.json"


def test_map_runs_an_agent_for_each_item(e2e: E2eSession, shop: Path) -> None:
    e2e.write_tutorial_block("""
    # run one agent for each item of a list; mngr copies the files in each agent's output directory and the agent's commits
    mngr map red green blue -- sh -c 'echo "$0 is a colour" > "$MNGR_OUTPUT_DIR/said.txt"' {item}
    """)
    result = e2e.run(
        """mngr map red green blue -- sh -c 'echo "$0 is a colour" > "$MNGR_OUTPUT_DIR/said.txt"' {item}""",
        comment="run one agent per item",
    )
    expect(result).to_succeed().to_match("^3 done: .*/.mngr/runs/")
    outputs = sorted(path.read_text() for path in shop.glob(".mngr/runs/*/tasks/*/outputs/said.txt"))
    assert outputs == ["blue is a colour\n", "green is a colour\n", "red is a colour\n"]
    assert {agent["state"] for agent in agents(e2e).values()} == {"DONE"}
    expect(e2e.run("mngr map red")).to_fail(2).to_match_lines("""
        Error: mngr map needs an agent kind or a command
        Hint: for example: mngr map a.py b.py --agent claude --prompt 'review {item}'
    """)


def test_map_reminds_of_a_missing_output_and_resumes_a_run(e2e: E2eSession, shop: Path) -> None:
    e2e.write_tutorial_block("""
    # send a prompt to each agent, and run two agents at a time; mngr reminds agents that have not written the required file
    cat > ../paint.json <<'EOF'
    [{"reply": "a moment"}, "wait", {"write": {"path": "$MNGR_OUTPUT_DIR/done.txt", "content": "painted\\n"}}]
    EOF
    mngr map door wall --name paint --agent player -p 'paint the {item}' --output done.txt --max-agents 2 -- ../paint.json
    """)
    e2e.write_tutorial_block("""
    # continue a run after a crash, a reboot or Ctrl-C; mngr skips finished tasks
    mngr map --resume paint
    """)
    run_all(e2e, PAINT)
    result = e2e.run(MAP, comment="send each agent a prompt")
    expect(result).to_succeed().to_contain("mngr reminds the agent (result)", "2 done: ")
    assert len(list(shop.glob(".mngr/runs/paint/tasks/*/outputs/done.txt"))) == 2
    before = (shop / ".mngr/runs/paint/journal.jsonl").read_text()
    result = e2e.run("mngr map --resume paint", comment="finished tasks are not repeated")
    expect(result).to_succeed().to_contain("2 done: ")
    after = (shop / ".mngr/runs/paint/journal.jsonl").read_text()
    assert '"launch"' not in after.removeprefix(before)
    expect(e2e.run("mngr map --resume pain")).to_fail(1).to_match_lines("""
        Error: there is no run 'pain'
        Hint: did you mean 'paint'?
    """)
