from shed import has

TOOLS = ("axe", "rake", "saw", "vice", "plane")


def test_all_tools_are_there():
    """All tools are there."""
    for tool in TOOLS[:2]:
        assert has(tool), tool
