from mngr.e2e import E2eSession, expect


def test_putting_in(e2e: E2eSession) -> None:
    """Something is put in."""
    expect(e2e.run("larder add rice")).to_succeed()
    expect(e2e.run("larder list").stdout).to_equal("rice\n")
