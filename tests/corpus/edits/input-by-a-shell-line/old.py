from mngr.e2e import E2eSession, expect


def test_sum(e2e: E2eSession) -> None:
    """The numbers of a file are added."""
    expect(e2e.run("adder sum --numbers 1,2,3")).to_equal("6")
