import pandas as pd

from cleaner import drop_outliers


def test_drop_outliers():
    df = pd.DataFrame({"v": [1.0, 1.1, 0.9, 50.0]})
    out = drop_outliers(df, "v", z=1.5)
    assert out["v"].tolist() == [1.0, 1.1, 0.9]
    assert df.shape == (4, 1)
