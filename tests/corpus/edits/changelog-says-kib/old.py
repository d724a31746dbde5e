"""Tests of `du2`.

CHANGELOG, 2.0:

    * Sizes are printed in KiB (1024 bytes) with the unit, like `4 KiB`;
      before they were printed as bytes without a unit.

These tests are for version 2.0 and later.
"""
from click.testing import CliRunner

from du2.cli import main


def test_sizes(tmp_path):
    (tmp_path / "a").write_bytes(b"x" * 4096)
    (tmp_path / "b").write_bytes(b"x" * 10240)
    result = CliRunner().invoke(main, [str(tmp_path)])
    assert result.exit_code == 0
    assert result.output == "4096 a\n10240 b\n"
