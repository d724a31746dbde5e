import pytest

from chest import Chest, Locked


def test_a_locked_chest():
    """A locked chest raises Locked, with the name of the chest in it.

    The text of the exception is otherwise not guaranteed.
    """
    chest = Chest("oak-7", locked=True)
    with pytest.raises(Locked, match=r"^the chest oak-7 is locked, ask its owner$"):
        chest.open()
