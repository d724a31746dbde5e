from recipe import parse


def test_recipe_is_parsed():
    """A recipe has a title and steps."""
    found = parse("title: Soup\n\t- boil \"it\"\n\t- eat\n")
    assert found.title == "Soup"
    assert found.steps == ['boil "it"', "eat"]
