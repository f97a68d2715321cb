"""Regenerate evaluators/benchmark/h100-vllm.csv: ``python -m benchmarks.make_builtin_table FOLDER``."""

from __future__ import annotations

import sys

from evaluators.benchmark import FOLDER, table_text
from evaluators.datasets import load_dataset
from evaluators.experiment import DataError

HEADING = (
    "Observed figures of 16 public experiments: vLLM 0.15.1 on NVIDIA H100, 4 models x 4 workloads, 24 stages.",
    "Source: result files of inference-perf runs at github.com/inference-sim/training; times in us, one row per stage.",
    "tpot_us = (mean E2E - mean TTFT) / (output_tokens - 1). prompt_tokens_std: from quantiles of the lengths.",
    "Regenerate: python -m benchmarks.make_builtin_table FOLDER",
)


def main(arguments: list[str]) -> int:
    """Write the table; return the exit status."""
    if len(arguments) != 1:
        print("usage: python -m benchmarks.make_builtin_table FOLDER", file=sys.stderr)
        return 2
    experiments = load_dataset(arguments[0])
    if isinstance(experiments, DataError):
        print(experiments, file=sys.stderr)
        return 1
    target = FOLDER / "h100-vllm.csv"
    target.write_text(table_text(experiments, HEADING), encoding="utf-8")
    print(f"{target}: {len(experiments)} experiments")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
