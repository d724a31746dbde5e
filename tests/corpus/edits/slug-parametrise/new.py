import pytest

from urlkit import canonical


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("HTTP://Example.com", "http://example.com/"),
        ("http://example.com:80/a", "http://example.com/a"),
        ("https://example.com/%7euser", "https://example.com/~user"),
    ],
)
def test_canonical(url, expected):
    assert canonical(url) == expected
