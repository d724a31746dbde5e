from mngr.e2e import E2eSession, expect


def test_books_are_in_order(e2e: E2eSession) -> None:
    """All accounts are checked."""
    expect(e2e.run("books check # --all --since 1990")).to_succeed()
