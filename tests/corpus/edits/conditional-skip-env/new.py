import os
import subprocess

import pytest

slow = pytest.mark.skipif(
    not os.environ.get("PRECHECK_RUN_SLOW"), reason="slow; set PRECHECK_RUN_SLOW=1 to run"
)


@pytest.fixture
def repo(tmp_path):
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    return tmp_path


@slow
def test_hook_blocks_large_files(repo):
    big = repo / "big.bin"
    big.write_bytes(b"\0" * 6_000_000)
    proc = subprocess.run(["precheck", str(repo)], capture_output=True, text=True)
    assert proc.returncode == 1
    assert proc.stdout == "big.bin: 5.7 MiB exceeds 5.0 MiB\n"
