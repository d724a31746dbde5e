import subprocess

import pytest


@pytest.mark.parametrize("arg", ["--jobs=0", "--jobs=-1", "--jobs=x"])
def test_bad_jobs_is_usage_error(arg):
    """Bad values of --jobs end with exit status 64."""
    proc = subprocess.run(["mill", "grind", arg], capture_output=True, text=True)
    assert proc.returncode == 64
    assert proc.stderr.startswith("mill: --jobs: ")
