import pytest

from tablekit import read


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_reading_does_not_warn(recwarn):
    assert read("a,b\n") == [["a", "b"]]
    assert len(recwarn) == 0
