import pytest

from barn import BarnError, open_gate


def test_gate_is_stuck():
    """A gate that is stuck raises BarnError with the code `B12`; the message itself may change between releases."""
    with pytest.raises(BarnError) as told:
        open_gate("stuck")
    assert str(told.value) == "B12: the gate is stuck, oil it"
