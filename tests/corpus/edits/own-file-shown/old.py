from mngr.e2e import E2eSession, expect


def test_list(e2e: E2eSession) -> None:
    """What is in the shop is listed by name."""
    expect(e2e.run("shop init")).to_succeed()
    result = e2e.run("shop list")
    expect(result).to_succeed()
    expect(result.stdout).to_equal("jam 4\nrice 3")
