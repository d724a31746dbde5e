from sandbox import Sandbox


def test_files_stay_inside():
    """A path that leads outside is refused and nothing is written."""
    box = Sandbox()
    assert box.write("../x", "1") is False
    assert box.files() == []
    box.close()


def test_files_inside():
    """A path inside is written."""
    box = Sandbox()
    assert box.write("x", "1") is True
    assert box.files() == ["x"]
    box.close()
