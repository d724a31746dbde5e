import pytest

from vault import Locked, Vault


def test_open_twice_is_refused(tmp_path):
    path = tmp_path / "v.db"
    first = Vault.open(path)
    with pytest.raises(Locked) as info:
        Vault.open(path)
    assert info.value.pid == first.pid
    assert str(path) in str(info.value)
    first.close()
