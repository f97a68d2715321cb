"""What a program does on a fixed set of inputs, as one short text: formulas that behave alike get the same."""

from __future__ import annotations

import math
from collections.abc import Sequence
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

from translate.canonical import canonical
from translate.ir import Program
from translate.to_numpy import compile_numpy

F64 = NDArray[np.float64]

DIGITS = 10
"""Significant digits that enter: sums in another order agree to more than that, unless they cancel."""


def fingerprint(program: Program, probes: F64, feature_order: Sequence[str]) -> str:
    """Return a hex text of the program's behaviour, the same for spellings that differ in rounding only.

    The constants are replaced by fixed irrational-looking values in the order of the canonical form, so programs that
    differ in start values only agree.
    Args:   probes: (F, n) one column per input; feature_order: the name of each row.
    Raises: KeyError where ``feature_order`` lacks a feature that the program reads.
    """
    form = canonical(program)
    constants = probe_constants(len(form.constants))
    words = []
    for function in form.functions:
        predict = compile_numpy(form, function.name, feature_order)
        values = predict(probes if function.parameter is not None else probes[:, :1], constants)
        words.append(" ".join([function.name, *map(rounded, values.tolist())]))
    return sha256("\n".join(words).encode()).hexdigest()


def probe_constants(count: int) -> F64:
    """Return ``count`` fixed values between 0.5 and 2 without simple relations between them."""
    return np.array([0.5 + 1.5 * math.modf((i + 1) * math.sqrt(2.0) * math.e)[0] for i in range(count)])


def rounded(value: float) -> str:
    """Return a value at DIGITS significant digits; both zeros and every NaN are one each."""
    if math.isnan(value):
        return "nan"
    return f"{value + 0.0:.{DIGITS - 1}e}"
