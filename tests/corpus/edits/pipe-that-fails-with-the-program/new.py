from mngr.e2e import E2eSession, expect


def test_members(e2e: E2eSession) -> None:
    """Members are listed, in no particular order."""
    listed = e2e.run("set -o pipefail; club members | sort")
    expect(listed).to_succeed()
    assert listed.stdout.splitlines() == ["ada", "bob"]
