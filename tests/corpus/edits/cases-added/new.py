import pytest

from slugger import slugify


@pytest.mark.parametrize("title, slug", [
    ("Hello World", "hello-world"),
    ("  spaced  out ", "spaced-out"),
    ("Crème brûlée", "creme-brulee"),
    ("a--b", "a-b"),
    ("", ""),
])
def test_slugify(title, slug):
    assert slugify(title) == slug
