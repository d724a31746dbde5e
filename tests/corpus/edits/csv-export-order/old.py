import csv
import io

from ledger.export import to_csv


def test_export_is_newest_first(sample_ledger):
    """Rows are exported newest first."""
    rows = list(csv.DictReader(io.StringIO(to_csv(sample_ledger))))
    assert [r["date"] for r in rows] == ["2024-03-09", "2024-02-01", "2023-12-31"]
    assert [r["amount"] for r in rows] == ["12.50", "-3.00", "100.00"]
