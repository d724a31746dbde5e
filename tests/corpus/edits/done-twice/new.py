import subprocess


def test_setting_up(tmp_path):
    """Setting up makes the directory ready."""
    for _ in range(2):
        done = subprocess.run(["camp", "up", str(tmp_path)], capture_output=True, text=True)
        assert done.returncode == 0
        assert done.stdout == "ready\n"
