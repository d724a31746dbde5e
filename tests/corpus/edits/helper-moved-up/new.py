import subprocess


def feed(animal):
    done = subprocess.run(["barn", "feed", animal], capture_output=True, text=True)
    assert done.returncode == 0
    return done.stdout


def test_cow_is_fed():
    """A cow is fed."""
    assert feed("cow") == "the cow eats\n"


def test_hen_is_fed():
    """A hen is fed."""
    assert feed("hen") == "the hen eats\n"
