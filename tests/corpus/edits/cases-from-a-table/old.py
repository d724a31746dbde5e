import pytest

from mngr.e2e import E2eSession, expect


@pytest.mark.parametrize(
    ("command", "code"),
    [("pantry", 0), ("pantry frob", 2), ("pantry add", 2), ("pantry find x", 1)],
)
def test_exit_codes(e2e: E2eSession, command: str, code: int) -> None:
    """0 for success, 1 for what is not there, 2 for usage."""
    expect(e2e.run("pantry init")).to_succeed()
    expect(e2e.run(command)).to_have_exit_code(code)
