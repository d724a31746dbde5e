from mngr.e2e import E2eSession, expect


def test_audit_passes(e2e: E2eSession) -> None:
    """The audit ends with success."""
    expect(e2e.run("books audit --year 2020")).to_succeed()
