from pathlib import Path

from snapshotter import take


def test_snapshots_are_few(tmp_path: Path) -> None:
    """At most ten snapshots are kept."""
    for number in range(25):
        take(tmp_path, label=str(number))
    kept = list(tmp_path.glob("*.snap"))
    assert 1 <= len(kept) <= 100
    assert (tmp_path / "24.snap").exists()
