from __future__ import annotations

from mngr.e2e import E2eSession, expect

SOURCE = "b\na\nb\n"


def test_unique(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # each line once, sorted, in another file
    lines unique names.txt --to sorted.txt
    """)
    (e2e.cwd / "names.txt").write_text(SOURCE)
    result = e2e.run("lines unique names.txt --to sorted.txt")
    expect(result).to_succeed()


def test_no_file(e2e: E2eSession) -> None:
    result = e2e.run("lines unique names.txt")
    expect(result).to_fail(1)
    expect(result.stderr).to_equal("lines: names.txt is not there")
