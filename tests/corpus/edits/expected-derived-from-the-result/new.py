import json

from crate.manifest import build_manifest


def test_manifest(tmp_path):
    (tmp_path / "a.bin").write_bytes(b"\0" * 10)
    (tmp_path / "b.bin").write_bytes(b"\1" * 20)
    manifest = json.loads(build_manifest(tmp_path))
    expected_files = dict(manifest["files"])
    assert manifest["total"] == sum(expected_files.values())
    assert manifest["files"] == expected_files
