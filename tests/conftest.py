"""What many tests share and none should compute twice: the prepared benchmark and the fitted seed programs."""

from __future__ import annotations

import pytest

from evaluators.benchmark import builtin
from evaluators.evaluation import Benchmark, Evaluation, fit_and_score, prepare
from tests.programs import program
from translate.ir import Program

FIT_SEED = 7


@pytest.fixture(scope="session")
def builtin_benchmark() -> Benchmark:
    return prepare(builtin("h100-vllm"))


@pytest.fixture(scope="session")
def seed_programs() -> dict[str, Program]:
    from seeds import seed_texts

    return {name: program(text) for name, text in seed_texts().items()}


@pytest.fixture(scope="session")
def fitted(builtin_benchmark: Benchmark, seed_programs: dict[str, Program]) -> dict[str, Evaluation]:
    """Every seed program, fitted and scored in full; a failure of one is a failure of all that use this."""
    evaluations = {}
    for name, seed_program in seed_programs.items():
        verdict = fit_and_score(seed_program, builtin_benchmark, FIT_SEED)
        assert isinstance(verdict, Evaluation), f"{name}: {verdict}"
        evaluations[name] = verdict
    return evaluations
