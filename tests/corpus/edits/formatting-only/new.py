import json
import os

from planner import plan


def test_plan(tmp_path):
    """A plan has a step for each task"""
    (tmp_path / "tasks.json").write_text(json.dumps(["a", "b"]))
    steps = plan(os.path.join(tmp_path, "tasks.json"))
    assert [s.name for s in steps] == ["a", "b"]
    assert all(s.done is False for s in steps)
