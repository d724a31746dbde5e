from mngr.e2e import expect
from shop import price


def test_update(e2e):
    """A price can be updated with --update."""
    expect(e2e.run("shop add rice 4")).to_succeed()
    expect(e2e.run("shop list").stdout).to_equal("rice 4")
