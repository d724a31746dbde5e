import logging

import pytest

from janitor import sweep


@pytest.fixture
def litter(tmp_path):
    for name in ("a.tmp", "b.tmp", "keep.txt"):
        (tmp_path / name).touch()
    return tmp_path


def test_sweep_logs(litter, caplog):
    """Each file that goes is logged at level info."""
    with caplog.at_level(logging.INFO, logger="janitor"):
        sweep(litter)
    assert caplog.record_tuples == [
        ("janitor", logging.INFO, "removed a.tmp"),
        ("janitor", logging.INFO, "removed b.tmp"),
    ]


def test_sweep_keeps(litter):
    """Only temporary files go."""
    sweep(litter)
    assert [path.name for path in litter.iterdir()] == ["keep.txt"]
