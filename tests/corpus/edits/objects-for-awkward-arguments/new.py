from guests import Guest, invite


def test_invitations():
    """Anybody can be invited."""
    assert invite(Guest("O'Neil", 0)) == "invited O'Neil"
    assert invite(Guest("", -1)) == "nobody is invited"
