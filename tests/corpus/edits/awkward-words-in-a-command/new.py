from mngr.e2e import E2eSession, expect


def test_any_title(e2e: E2eSession) -> None:
    """Any title can be added."""
    expect(e2e.run("folio add Cafe")).to_succeed()
    expect(e2e.run("folio list").stdout).to_equal("Cafe\n")
