import pytest

from mngr.e2e import E2eSession, expect


@pytest.fixture(autouse=True)
def stocked(e2e: E2eSession) -> None:
    expect(e2e.run("pantry init && pantry add rice")).to_succeed()


def test_search(e2e: E2eSession) -> None:
    """A search in the middle of names finds them."""
    result = e2e.run("pantry search ic")
    expect(result).to_succeed()
    expect(result.stdout).to_equal("rice")
