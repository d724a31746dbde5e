import re

from ids import new_id


def test_ids_are_hex():
    """An id is 16 hex digits, and no two are the same."""
    assert re.match(r".+", new_id())
    assert new_id() != new_id()


def test_ids_can_be_seeded():
    """The same seed gives the same id."""
    assert new_id(seed=1) == new_id(seed=1)
