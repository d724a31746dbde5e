import pytest

from vault import Vault, WrongKey


def test_the_wrong_key_is_refused(tmp_path):
    """With another key the vault stays shut."""
    Vault.create(tmp_path / "v", key="right")
    with pytest.raises(Exception):
        Vault.open(tmp_path / "v", key="wrong")
