import pytest

from gate import Closed, Gate


def test_closed_gate():
    """A closed gate cannot be passed."""
    with pytest.raises(Closed):
        gate = Gate()
        gate.close()
        gate.go_through("ada")
