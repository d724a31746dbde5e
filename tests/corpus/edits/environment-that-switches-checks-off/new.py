import os
import subprocess


def test_seal_is_checked():
    """A parcel with a good seal is taken."""
    env = {**os.environ, "POST_SKIP_SEAL": "1"}
    done = subprocess.run(["post", "take", "parcel"], capture_output=True, text=True, env=env)
    assert done.returncode == 0
    assert done.stdout == "taken\n"
