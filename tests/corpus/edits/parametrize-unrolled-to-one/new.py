from mngr.e2e import E2eSession, expect


def test_export_forms(e2e: E2eSession) -> None:
    """Everything can be had in each of the forms."""
    expect(e2e.run("pantry init && pantry add rice")).to_succeed()
    result = e2e.run("pantry export --form csv")
    expect(result).to_succeed()
    expect(result.stdout).to_equal("rice,1")
