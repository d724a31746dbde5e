from mngr.e2e import E2eSession, expect


def test_audit_of_a_year(e2e: E2eSession) -> None:
    """The audit ends with success."""
    expect(e2e.run("books audit --year 2021; echo the audit is over")).to_succeed()
