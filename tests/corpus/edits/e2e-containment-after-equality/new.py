from __future__ import annotations

from mngr.e2e import E2eSession, expect


def test_sum(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # add up the second column
    columns sum prices.tsv 2
    """)
    (e2e.cwd / "prices.tsv").write_text("pen\t2\nink\t5\n")
    result = e2e.run("columns sum prices.tsv 2")
    expect(result).to_succeed()
    expect(result.stdout).to_equal("sum of column 2: 7")
