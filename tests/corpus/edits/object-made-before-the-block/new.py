import pytest

from gate import Closed, Gate


def test_closed_gate():
    """A closed gate cannot be passed."""
    gate = Gate()
    gate.close()
    with pytest.raises(Closed):
        gate.go_through("ada")
