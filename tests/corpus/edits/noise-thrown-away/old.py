import subprocess


def test_count_of_pages():
    """The pages are counted."""
    done = subprocess.run(["folio", "count"], capture_output=True, text=True)
    assert done.returncode == 0
    assert done.stdout == "12\n"
