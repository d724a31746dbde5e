from shed import has


def test_all_tools_are_there():
    """All tools are there."""
    for tool in ("axe", "rake", "saw", "vice", "plane"):
        assert has(tool), tool
