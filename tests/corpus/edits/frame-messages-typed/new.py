from __future__ import annotations

import pandas as pd

from cleaner import drop_outliers


def test_drop_outliers() -> None:
    """The outlier goes, the rest stays in order, and the input is not modified."""
    df: pd.DataFrame = pd.DataFrame({"v": [1.0, 1.1, 0.9, 50.0]})
    out: pd.DataFrame = drop_outliers(df, "v", z=1.5)
    assert out["v"].tolist() == [1.0, 1.1, 0.9], f"kept the wrong rows:\n{out}"
    assert df.shape == (4, 1), "drop_outliers changed its input"
