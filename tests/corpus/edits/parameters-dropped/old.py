import pytest

from roman import to_roman


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (1, "I"),
        (4, "IV"),
        (9, "IX"),
        (40, "XL"),
        (1994, "MCMXCIV"),
    ],
)
def test_to_roman(number, text):
    """Smaller before larger is taken away."""
    assert to_roman(number) == text
