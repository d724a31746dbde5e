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
    expect(e2e.cwd).to_match_tree({
        "book.txt": "# One\nfirst\n# Two\nsecond\n",
        "book-1.txt": "# One\nfirst\n",
        "book-2.txt": "# Two\nsecond\n",
    })
