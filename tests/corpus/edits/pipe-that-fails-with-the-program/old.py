from mngr.e2e import E2eSession, expect


def test_members(e2e: E2eSession) -> None:
    """Members are listed, in no particular order."""
    listed = e2e.run("club members")
    expect(listed).to_succeed()
    assert sorted(listed.stdout.splitlines()) == ["ada", "bob"]
