"""How well a structure predicts what its constants were not fitted to: refits without one model, without one workload.

Refits and predictions use the mean field, so a program's seven folds cost some tens of milliseconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evaluators.compiled import Compiled
from evaluators.fitting import mean_field_prediction, refit, relative_errors
from evaluators.meanfield import METRICS, MeanField, rows_of

F64 = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Generalisation:
    """Mean absolute E2E error on left-out rows, as a fraction; None where there is only one group to leave out."""

    model: float | None
    workload: float | None


def leave_one_out(
    compiled: Compiled, field: MeanField, constants: F64, ratio: F64, groups: Sequence[str]
) -> float | None:
    """Return the mean absolute E2E error over all rows, each predicted by a refit without its group.

    Args: constants: (k,) where each refit starts; ratio: (len(METRICS), rows) simulator over mean field, as in `refit`.
    """
    if len(set(groups)) < 2:
        return None
    errors = np.empty(len(groups))
    for group in sorted(set(groups)):
        left_out = np.array([name == group for name in groups])
        refitted = refit(compiled, rows_of(field, ~left_out), constants, ratio[:, ~left_out])
        unseen = rows_of(field, left_out)
        predicted = mean_field_prediction(compiled, unseen, refitted) * ratio[:, left_out]
        errors[left_out] = relative_errors(predicted, unseen.observed)[METRICS.index("e2e")]
    return float(np.mean(np.abs(errors)))


def generalisation(compiled: Compiled, field: MeanField, constants: F64, ratio: F64) -> Generalisation:
    """Return the leave-one-model-out and leave-one-workload-out errors of a fitted structure."""
    return Generalisation(
        model=leave_one_out(compiled, field, constants, ratio, field.models),
        workload=leave_one_out(compiled, field, constants, ratio, field.workloads),
    )
