import pytest

from calcline import evaluate


@pytest.mark.parametrize(
    "expr, value",
    [
        ("1+2*3", 7),
        ("(1+2)*3", 9),
        pytest.param("-2**2", -4, marks=pytest.mark.xfail(reason="precedence bug #12")),
    ],
)
def test_evaluate(expr, value):
    assert evaluate(expr) == value
