import textwrap

from recipe import parse

SOUP = textwrap.dedent(
    """\
    title: Soup
    \t- boil "it"
    \t- eat
    """
)


def test_recipe_is_parsed():
    """A recipe has a title and steps."""
    found = parse(SOUP)
    assert found.title == "Soup"
    assert found.steps == ['boil "it"', "eat"]
