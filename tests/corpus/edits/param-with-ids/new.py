import pytest

from fold import fold


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("Straße", id="sharp s"),
        pytest.param("STRASSE", id="capitals"),
        pytest.param("strasse", id="plain"),
    ],
)
def test_fold(text):
    """Both ways to write it are the same."""
    assert fold(text) == "strasse"


def test_fold_keeps_digits():
    """Digits are as they were."""
    assert fold("42") == "42"
