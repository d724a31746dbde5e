import pytest

from vault import Vault


@pytest.fixture
def vault(tmp_path):
    return Vault(tmp_path)


def test_new_vault_is_empty(vault):
    assert vault.is_empty()


def test_written_value_is_read_back(vault):
    vault.write("k", "v")
    assert vault.read("k") == "v"
    assert not vault.is_empty()


def test_removed_value_is_gone(vault):
    vault.write("k", "v")
    vault.remove("k")
    assert vault.is_empty()
    assert vault.read("k", default=None) is None
