from mngr.e2e import E2eSession, expect


def test_export(e2e: E2eSession) -> None:
    """All contacts are written."""
    expect(e2e.run("contacts export all.csv")).to_succeed()
    expect(e2e.run("cat all.csv")).to_equal("name,mail\nAnn,ann@example.org")
