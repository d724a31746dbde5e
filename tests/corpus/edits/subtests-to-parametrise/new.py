import pytest

from units import to_bytes


@pytest.mark.parametrize(
    "text, want",
    [("1", 1), ("1k", 1024), ("2M", 2 * 1024**2), ("1.5G", 1610612736)],
)
def test_suffixes(text, want):
    assert to_bytes(text) == want


@pytest.mark.parametrize("text", ["", "k", "1x", "-1"])
def test_bad(text):
    with pytest.raises(ValueError):
        to_bytes(text)
