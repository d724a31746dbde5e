import pytest

from gate import Gate, Refused


@pytest.mark.parametrize("name", ["eve", "bob"])
def test_who_is_refused(name):
    """Strangers are refused."""
    gate = Gate(["ada"])
    with pytest.raises(Refused, match=name):
        gate.enter(name)
