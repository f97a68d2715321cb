"""`evaluate`: what it says beside the score."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from evolve.cli import main
from tests.evolve.tiny_runs import tiny_dataset


def test_evaluate_says_that_a_run_would_reject_what_breaks_an_invariant(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, data = tmp_path / "mine.py", tiny_dataset(tmp_path)
    path.write_text("def predict_step_time(b):\n    return 9000.0\n")
    assert main(["evaluate", str(path), "--data", str(data)]) == 0
    assert "A run would reject this program (INV-P-1): " in capsys.readouterr().out
    assert main(["evaluate", str(path), "--data", str(data), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["violation"]["code"] == "INV-P-1"
