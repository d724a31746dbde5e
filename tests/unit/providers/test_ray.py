"""What runs on the nodes of a Ray cluster, where it needs no cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from mngr.bridge import ray_keep


def test_a_keeper_has_room_again_for_what_was_replaced_or_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_keep, "MOST_OF_ALL", 1000)

    def put(keeper: ray_keep.Keeper, tag: str, data: bytes) -> bool:
        return keeper.put(tag, "a-1", "work.bundle", data, first=True)

    keeper = ray_keep.Keeper(str(tmp_path / "kept"))
    for _ in range(3):
        assert put(keeper, "one", b"x" * 400)  # begun again
    for _ in range(3):
        assert put(keeper, "one", b"x" * 400)
        keeper.done("one", "a-1", ["work.bundle"])
    assert put(keeper, "two", b"x" * 700) and not put(keeper, "three", b"x")
    assert not put(ray_keep.Keeper(str(tmp_path / "kept")), "three", b"x")
    keeper.drop("two")
    assert put(keeper, "three", b"x")
