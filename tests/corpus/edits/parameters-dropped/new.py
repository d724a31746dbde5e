import pytest

from roman import to_roman


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (1, "I"),
        (6, "VI"),
        (40, "XL"),
    ],
)
def test_to_roman(number, text):
    """Smaller before larger is taken away."""
    assert to_roman(number) == text
