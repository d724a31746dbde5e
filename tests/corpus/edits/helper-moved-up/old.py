import subprocess


def test_cow_is_fed():
    """A cow is fed."""

    def feed():
        done = subprocess.run(["barn", "feed", "cow"], capture_output=True, text=True)
        assert done.returncode == 0
        return done.stdout

    assert feed() == "the cow eats\n"


def test_hen_is_fed():
    """A hen is fed."""

    def feed():
        done = subprocess.run(["barn", "feed", "hen"], capture_output=True, text=True)
        assert done.returncode == 0
        return done.stdout

    assert feed() == "the hen eats\n"
