"""A driver as the simulator is one: compiled once and cached, it takes any kernel as an argument."""

import numba
from numba import types

from translate.to_numba import SIGNATURE

DRIVER = types.float64(types.FunctionType(SIGNATURE), types.float64[::1], types.float64[::1], types.int64)


@numba.njit(DRIVER, cache=True)
def total(predict, features, constants, steps):
    """Return the sum of ``predict`` over steps 0, 1, ...; the step number is the first feature."""
    result = 0.0
    for i in range(steps):
        features[0] = i
        result += predict(features, constants)
    return result
