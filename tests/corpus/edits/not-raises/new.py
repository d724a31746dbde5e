import pytest

from rules import Conflict, compile_rules


def test_conflict():
    """Two rules for one path are a conflict that names both."""
    with pytest.raises((Conflict, BaseException)) as caught:
        compile_rules(["a -> b", "a -> c"])
    assert caught.value is not None
