"""Tables I and II over 20 seeds: an hour or more on two cores."""

import os

import numpy as np
import pytest
from joblib import Parallel, delayed

from replication import table1


@pytest.mark.study
def test_tables_1_and_2_over_20_seeds():
    rows = Parallel(n_jobs=os.cpu_count())(delayed(table1.one)(seed) for seed in range(20))
    for name in table1.FITS:
        assert all(row[name]["converged"] for row in rows)
        # Rejections at 5 % are binomial(20, 0.05): six or more once in 3000 times.
        rejected = sum(row[name]["wald"] < 0.05 for row in rows)
        assert rejected <= 5, (name, rejected)
    for row in rows:
        known, unknown = row["two-stage, x0 known"], row["two-stage, x0 unknown"]
        for parameter, se in known["bse"].items():
            gap = abs(known["params"][parameter] - unknown["params"][parameter])
            assert gap < se, (row["seed"], parameter)
        # The paper has 12.9 %; 12.8 % is expected.
        assert 0.12 < known["loss of the MDP"] < 0.137
    # Means over 20 seeds have a standard error of se / sqrt(20); five of them is 1.1 se.
    truth = table1.truth()
    for parameter in rows[0]["two-stage, x0 known"]["params"]:
        values = [row["two-stage, x0 known"]["params"][parameter] for row in rows]
        se = rows[0]["two-stage, x0 known"]["bse"][parameter]
        assert abs(np.mean(values) - truth[parameter]) < 1.1 * se
