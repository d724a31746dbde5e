import subprocess


def test_animals_are_listed():
    """All animals are listed. Do not rely on their order."""
    out = subprocess.run(["barn", "animals"], capture_output=True, text=True, check=True).stdout
    assert sorted(out.splitlines()) == ["ass", "cow", "hen"]
