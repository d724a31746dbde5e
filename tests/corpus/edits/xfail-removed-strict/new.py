import pytest

from calcline import evaluate


@pytest.mark.parametrize(
    "expr, value",
    [
        ("1+2*3", 7),
        ("(1+2)*3", 9),
        ("-2**2", -4),
        ("2**-1", 0.5),
    ],
)
def test_evaluate(expr, value):
    assert evaluate(expr) == value
