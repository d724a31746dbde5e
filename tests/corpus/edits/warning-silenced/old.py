import warnings

import pytest

from geo import distance, distance_km


def test_distance():
    """The distance is in metres."""
    assert distance((0, 0), (0, 1)) == 111195


def test_old_name_warns():
    """The old name still works and says what to use instead."""
    with pytest.warns(DeprecationWarning, match=r"use distance\(\) instead"):
        assert distance_km((0, 0), (0, 1)) == 111.195


def test_new_name_is_quiet():
    """The new name warns of nothing."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        distance((0, 0), (0, 1))
