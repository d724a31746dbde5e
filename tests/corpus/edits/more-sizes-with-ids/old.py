import pytest

from humansize import format_size


@pytest.mark.parametrize("size, text", [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (1536, "1.5 KiB")])
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
