from mngr.e2e import E2eSession, expect


def test_sum(e2e: E2eSession) -> None:
    """The numbers of a file are added."""
    expect(e2e.run("printf '1\\n2\\n3\\n' > numbers.txt")).to_succeed()
    expect(e2e.run("adder sum --file numbers.txt")).to_equal("6")
