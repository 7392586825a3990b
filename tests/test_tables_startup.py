"""Commands and short runs import no library that they do not use."""

import subprocess
import sys

CODE = """
import sys

def reject(*names):
    found = sorted(set(names) & set(sys.modules))
    assert not found, f"imported {found}"

import nrtsi.baselines, nrtsi.tables.files, nrtsi.imputer.nrtsi
reject("sklearn", "scipy", "pandas", "polars", "matplotlib", "rich")

import numpy as np
value = np.sin(np.arange(60.0)).reshape(30, 2)
value[4:8, 0] = np.nan
model = nrtsi.NRTSI(preset="tiny", steps=1).fit(value)
model.save(sys.argv[1])
assert np.isfinite(nrtsi.load(sys.argv[1]).set_params(seed=1).impute(value)).all()
reject("sklearn", "scipy", "polars", "matplotlib")
"""


def test_training_and_imputing_import_only_what_they_use(tmp_path):
    command = [sys.executable, "-c", CODE, str(tmp_path / "model")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


WITHOUT = """
import sys
import pyarrow as pa
from nrtsi.tables.files import prevent_pandas_import

prevent_pandas_import()
assert pa.array([1.5, None]).to_numpy(zero_copy_only=False)[0] == pa.scalar(1.5).as_py()
assert "pandas" not in sys.modules

import pandas as pd
frame = pa.table({"x": [1.5, None]}).to_pandas()
assert frame.equals(pd.DataFrame({"x": [1.5, None]}))
assert pa.array(frame["x"]).null_count == 1
"""


def test_pyarrow_imports_pandas_only_when_it_needs_it():
    command = [sys.executable, "-c", WITHOUT]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_pandas_that_is_imported_stays_usable():
    import pandas as pd
    import pyarrow as pa

    from nrtsi.tables.files import prevent_pandas_import

    prevent_pandas_import()
    assert pa.array(pd.Series([1.5, None])).null_count == 1
