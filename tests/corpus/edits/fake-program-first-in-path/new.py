import os
import subprocess


def test_hash_of_file(tmp_path):
    (tmp_path / "f").write_bytes(b"abc")
    bindir = tmp_path / "bin"
    bindir.mkdir()
    tool = bindir / "quickhash"
    tool.write_text("#!/bin/sh\necho '900150983cd24fb0d6963f7d28e17f72  f'\n")
    tool.chmod(0o755)
    env = dict(os.environ, PATH=f"{bindir}{os.pathsep}{os.environ['PATH']}")
    proc = subprocess.run(
        ["quickhash", "f"], cwd=tmp_path, capture_output=True, text=True,
        env=env,
    )
    assert proc.returncode == 0
    assert proc.stdout == "900150983cd24fb0d6963f7d28e17f72  f\n"
