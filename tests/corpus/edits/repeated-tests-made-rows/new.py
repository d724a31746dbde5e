import pytest

from grade import grade


@pytest.mark.parametrize(
    ("points", "want"),
    [
        pytest.param(90, "A", id="ninety"),
        pytest.param(70, "C", id="seventy"),
        pytest.param(0, "F", id="zero"),
    ],
)
def test_grade(points, want):
    assert grade(points) == want
