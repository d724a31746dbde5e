import subprocess
from importlib.metadata import version


def test_version_of_the_loom():
    """The version is printed."""
    out = subprocess.run(["loom", "--version"], capture_output=True, text=True, check=True).stdout
    assert out == f"loom {version('loom')}\n"
