from __future__ import annotations

from mngr.e2e import E2eSession, expect


def test_build(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # build the image
    stack build .
    """)
    (e2e.cwd / "stack.yaml").write_text("base: alpine\nsteps: [true]\n")
    result = e2e.run("stack build .")
    expect(result).to_succeed()
    expect(result.stdout).to_match_lines("""
        step 1 of 1: true
        built [HASH] in [DURATION]
    """)


def test_build_without_a_file(e2e: E2eSession) -> None:
    """Without stack.yaml there is nothing to build."""
    result = e2e.run("stack build .")
    expect(result).to_fail(1)
    expect(result.stderr).to_contain("stack.yaml is not there")
