"""The examples run."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs(path):
    command = [sys.executable, str(path), "--steps", "2"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_the_sinusoids_benchmark_runs(tmp_path):
    path = Path(__file__).parents[1] / "benchmarks" / "sinusoids.py"
    out = tmp_path / "out.csv"
    command = [sys.executable, str(path), "--steps", "2", "--series", "8", "--preset", "tiny"]
    done = subprocess.run(
        [*command, "--out", str(out)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert out.read_text().startswith("data,method,preset,seed,budget,steps,mse")
