import pytest

from vault import Locked, Vault


def test_locked_vault_refuses_reads(tmp_path):
    vault = Vault(tmp_path)
    vault.lock()
    with pytest.raises(Locked) as exc:
        vault.read("secret")
    assert exc.value.key == "secret"
    assert vault.attempts == 1
    assert str(exc.value) == "vault is locked"
