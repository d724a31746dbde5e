import pytest

from vault import Vault, WrongKey


def test_the_wrong_key_is_refused(tmp_path):
    """With another key the vault stays shut."""
    Vault.create(tmp_path / "v", key="right")
    with pytest.raises(WrongKey, match="this key does not open"):
        Vault.open(tmp_path / "v", key="wrong")
