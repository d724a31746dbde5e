import pytest

from mngr.e2e import E2eSession, expect


@pytest.mark.parametrize("name", ["rice", "jam"])
@pytest.mark.parametrize("shelf", ["top", "bottom"])
def test_add_to_shelf(e2e: E2eSession, name: str, shelf: str) -> None:
    """Everything can be on every shelf."""
    expect(e2e.run("pantry init")).to_succeed()
    result = e2e.run(f"pantry add {name} --shelf {shelf}")
    expect(result).to_succeed()
    expect(result.stdout).to_equal(f"added {name} on the {shelf} shelf")
