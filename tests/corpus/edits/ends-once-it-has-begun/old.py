from shed import Shed


def test_tools_are_hung_up():
    """Tools are hung up and found again."""
    shed = Shed()
    assert shed.hang("axe") is True
    assert shed.where("axe") == "hook 1"
