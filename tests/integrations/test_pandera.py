"""The recipe of docs/howto/integrations.md."""

import numpy as np
import pandas as pd
import pandera.pandas as pa
import pytest

import kembed


def test_a_schema_checks_the_distribution():
    rng = np.random.default_rng(0)
    reference = pd.DataFrame({"age": rng.normal(40, 10, 300), "plan": rng.choice(["free", "paid"], 300)})
    batch = pd.DataFrame({"age": rng.normal(40, 10, 200), "plan": rng.choice(["free", "paid"], 200)})

    def same_distribution(frame):
        return kembed.mmd_test(reference, frame, rng=0).pvalue > 0.001

    check = pa.Check(same_distribution, error="the distribution differs")
    schema = pa.DataFrameSchema({"age": pa.Column(float), "plan": pa.Column(str)}, checks=check)
    assert len(schema.validate(batch)) == 200
    with pytest.raises(pa.errors.SchemaError, match="the distribution differs"):
        schema.validate(batch.assign(age=batch["age"] + 10.0))
