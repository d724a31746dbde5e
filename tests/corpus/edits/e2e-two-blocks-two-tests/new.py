from __future__ import annotations

from mngr.e2e import E2eSession, expect


def test_punch_in(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # note when work begins
    punch in --project website
    """)
    result = e2e.run("punch in --project website")
    expect(result).to_succeed()
    expect(result.stdout).to_match_lines("[TIME] working on website")


def test_report(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # and what was worked on
    punch report
    """)
    expect(e2e.run("punch in --project website")).to_succeed()
    report = e2e.run("punch report")
    expect(report).to_succeed()
    expect(report.stdout).to_match_lines("""
        PROJECT  TIME
        website  [DURATION]
    """)
