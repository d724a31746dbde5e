from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from crate.manifest import build_manifest


def test_manifest(tmp_path: Path) -> None:
    """The manifest has each file's size and their sum."""
    (tmp_path / "a.bin").write_bytes(b"\0" * 10)
    (tmp_path / "b.bin").write_bytes(b"\1" * 20)

    manifest: dict[str, Any] = json.loads(build_manifest(tmp_path))

    # 10 + 20
    assert manifest["total"] == 30
    assert manifest["files"] == {"a.bin": 10, "b.bin": 20}
