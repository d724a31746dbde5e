import os
import subprocess


def test_hash_of_file(tmp_path):
    (tmp_path / "f").write_bytes(b"abc")
    proc = subprocess.run(
        ["quickhash", "f"], cwd=tmp_path, capture_output=True, text=True,
        env=dict(os.environ),
    )
    assert proc.returncode == 0
    assert proc.stdout == "900150983cd24fb0d6963f7d28e17f72  f\n"
