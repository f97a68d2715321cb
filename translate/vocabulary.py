"""Which functions a program may define and which features each may read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

REQUIRED = "predict_step_time"

PARAMETERS: Mapping[str, str | None] = MappingProxyType(
    {
        "predict_step_time": "b",
        "predict_queueing_time": "r",
        "predict_output_token_time": None,
        "predict_scheduling_time": None,
        "predict_preemption_time": None,
    }
)
"""The usual name of each function's input; None where it has none."""


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The feature names that each function may read; a function without an entry may read none."""

    features: Mapping[str, frozenset[str]]

    def of(self, function_name: str) -> frozenset[str]:
        """Return the features of one function's input."""
        return self.features.get(function_name, frozenset())
