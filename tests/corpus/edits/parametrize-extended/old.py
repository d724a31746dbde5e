import pytest

from slug import slugify


@pytest.mark.parametrize(
    ("title", "slug"),
    [("Hello World", "hello-world"), ("a  b", "a-b")],
)
def test_slug(title, slug):
    """Words are joined by a dash, in lower case."""
    assert slugify(title) == slug
