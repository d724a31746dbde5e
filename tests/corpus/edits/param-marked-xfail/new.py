import pytest

from slugger import slugify


@pytest.mark.parametrize(
    "title, slug",
    [
        ("Hello World", "hello-world"),
        ("  spaced  out ", "spaced-out"),
        pytest.param("Crème brûlée", "creme-brulee", marks=pytest.mark.xfail),
    ],
)
def test_slugify(title, slug):
    """Titles become lower-case ASCII slugs; accents are removed."""
    assert slugify(title) == slug
