from guests import invite


def test_invitations():
    """Anybody can be invited."""
    assert invite("O'Neil", 0) == "invited O'Neil"
    assert invite("", -1) == "nobody is invited"
