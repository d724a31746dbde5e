import pytest

from humansize import format_size


@pytest.mark.parametrize(
    ("size", "text"),
    [
        pytest.param(0, "0 B", id="nothing"),
        pytest.param(1, "1 B", id="one"),
        pytest.param(1023, "1023 B", id="just-below"),
        pytest.param(1024, "1.0 KiB", id="exactly"),
        pytest.param(1536, "1.5 KiB", id="half"),
        pytest.param(5 * 1024**3, "5.0 GiB", id="large"),
    ],
)
def test_format_size(size, text):
    """Sizes are in units of 1024, with one place after the point."""
    assert format_size(size) == text


class TestErrors:
    def test_negative(self):
        with pytest.raises(ValueError, match="negative size: -1"):
            format_size(-1)

    def test_not_a_number(self):
        with pytest.raises(TypeError):
            format_size("1024")
