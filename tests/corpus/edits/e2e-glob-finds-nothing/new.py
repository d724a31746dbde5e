from __future__ import annotations

from mngr.e2e import E2eSession, expect


def test_split_by_chapter(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # a file for each chapter
    chapters split book.txt
    """)
    (e2e.cwd / "book.txt").write_text("# One\nfirst\n# Two\nsecond\n")
    result = e2e.run("chapters split book.txt")
    expect(result).to_succeed()
    expect(result.stdout).to_equal("2 chapters")
    heads = ["# One", "# Two"]
    for head, path in zip(heads, sorted(e2e.cwd.glob("book-?.text"))):
        expect(path.read_text()).to_contain(head)
