from __future__ import annotations

from mngr.e2e import E2eSession, expect


def test_report(e2e: E2eSession) -> None:
    """The report ends with the sum."""
    expect(e2e.run("pantry init && pantry add rice --price 3 && pantry add jam --price 4")).to_succeed()
    expect(e2e.run("pantry report --to report.txt")).to_succeed()
    e2e.run("printf 'rice 3\\njam 4\\nsum 7\\n' > report.txt")
    result = e2e.run("cat report.txt")
    expect(result).to_succeed()
    expect(result.stdout).to_equal("rice 3\njam 4\nsum 7")
