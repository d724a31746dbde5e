import pytest

from slugger import slugify


@pytest.mark.parametrize(
    "title, slug",
    [
        ("Hello World", "hello-world"),
        ("  spaced  out ", "spaced-out"),
        ("Crème brûlée", "creme-brulee"),
    ],
)
def test_slugify(title, slug):
    """Titles become lower-case ASCII slugs; accents are removed."""
    assert slugify(title) == slug
