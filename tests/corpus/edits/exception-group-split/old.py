import pytest

from gate import Gate, Refused


def test_who_is_refused():
    """Strangers are refused."""
    gate = Gate(["ada"])
    for name in ("eve", "bob"):
        with pytest.raises(Refused) as told:
            gate.enter(name)
        assert name in str(told.value)
