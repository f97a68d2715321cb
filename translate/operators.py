"""The operator table: what every operation gives, bit for bit. All backends are tested against it.

Values are IEEE-754 binary64, rounded to nearest even. Nothing traps and nothing raises: an operation without a real
result gives NaN, one beyond the range gives a signed infinity. Which NaN (sign, payload) is not specified and cannot
be observed. Arithmetic, neg, abs, sqrt, min, max, comparisons and the final conversion agree bit for bit in all
backends; log, log1p, exp, expm1 and pow within 2 ulp, except for the special values listed here, which are exact.
Source: IEEE 754-2019 (minimum, maximum: 9.6), C99 Annex F (pow, exp, log), Go's math package and min/max builtins.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

INT64_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Rule:
    """One line of the table: how the operation is written, what it gives at the edges, and the operation itself."""

    text: str
    edges: str
    apply: Callable[..., float]


def _div(a: float, b: float) -> float:
    if b != 0.0:
        return a / b
    if a == 0.0 or math.isnan(a) or math.isnan(b):
        return math.nan
    return math.copysign(math.inf, a) * math.copysign(1.0, b)


def _pow(a: float, b: float) -> float:
    try:
        return math.pow(a, b)
    except OverflowError:
        odd = math.fmod(b, 2.0) in (1.0, -1.0)
        return math.copysign(math.inf, a) if odd else math.inf
    except ValueError:  # a zero to a negative power, or a negative base to a fractional one
        if a != 0.0:
            return math.nan
        return math.copysign(math.inf, a) if math.fmod(b, 2.0) in (1.0, -1.0) else math.inf


def _max(a: float, b: float) -> float:
    if math.isnan(a) or math.isnan(b):
        return math.nan
    if a == b == 0.0:
        return a + b
    return a if a >= b else b


def _min(a: float, b: float) -> float:
    return -_max(-a, -b)


def _sqrt(a: float) -> float:
    return math.sqrt(a) if a >= 0.0 else math.nan


def _log(a: float) -> float:
    if a == 0.0:
        return -math.inf
    return math.log(a) if a > 0.0 else math.nan


def _log1p(a: float) -> float:
    if a == -1.0:
        return -math.inf
    return math.log1p(a) if a > -1.0 else math.nan


def _exp(a: float) -> float:
    try:
        return math.exp(a)
    except OverflowError:
        return math.inf


def _expm1(a: float) -> float:
    try:
        return math.expm1(a)
    except OverflowError:
        return math.inf


UNARY: Mapping[str, Rule] = MappingProxyType(
    {
        "neg": Rule("-x", "flips the sign, of zeros too", lambda a: -a),
        "abs": Rule("abs(x)", "clears the sign; abs(-0) = 0", abs),
        "sqrt": Rule("math.sqrt(x)", "x < 0 gives NaN; sqrt(-0) = -0", _sqrt),
        "log": Rule("math.log(x)", "log(+-0) = -inf; x < 0 gives NaN; log(inf) = inf", _log),
        "log1p": Rule("math.log1p(x)", "log1p(-1) = -inf; x < -1 gives NaN; log1p(-0) = -0", _log1p),
        "exp": Rule("math.exp(x)", "overflow gives inf; exp(-inf) = 0", _exp),
        "expm1": Rule("math.expm1(x)", "overflow gives inf; expm1(-inf) = -1; expm1(-0) = -0", _expm1),
    }
)

BINARY: Mapping[str, Rule] = MappingProxyType(
    {
        "add": Rule("x + y", "inf + -inf gives NaN", lambda a, b: a + b),
        "sub": Rule("x - y", "inf - inf gives NaN", lambda a, b: a - b),
        "mul": Rule("x * y", "0 * inf gives NaN", lambda a, b: a * b),
        "div": Rule("x / y", "x / +-0 is inf with the product of the signs; 0 / 0 and inf / inf give NaN", _div),
        "pow": Rule(
            "x ** y",
            "x ** 0 = 1 and 1 ** y = 1, for NaN too; x < 0 with a fractional finite y gives NaN; 0 ** y for y < 0 is "
            "inf, signed as x for odd y; (-1) ** +-inf = 1; overflow is inf, negative for x < 0 and odd y",
            _pow,
        ),
        "min": Rule("min(x, y)", "NaN if either is NaN; -0 < +0", _min),
        "max": Rule("max(x, y)", "NaN if either is NaN; -0 < +0", _max),
    }
)

COMPARE: Mapping[str, Rule] = MappingProxyType(
    {
        "lt": Rule("x < y", "false if either is NaN", lambda a, b: a < b),
        "le": Rule("x <= y", "false if either is NaN", lambda a, b: a <= b),
        "gt": Rule("x > y", "false if either is NaN", lambda a, b: a > b),
        "ge": Rule("x >= y", "false if either is NaN", lambda a, b: a >= b),
        "eq": Rule("x == y", "false if either is NaN; -0 == +0", lambda a, b: a == b),
        "ne": Rule("x != y", "true if either is NaN; -0 == +0", lambda a, b: a != b),
    }
)

LOGIC: Mapping[str, Rule] = MappingProxyType(
    {
        "and": Rule("p and q", "both sides may be computed: none has an effect", lambda a, b: a and b),
        "or": Rule("p or q", "both sides may be computed: none has an effect", lambda a, b: a or b),
        "not": Rule("not p", "not (x < y) is true for NaN", lambda a: not a),
    }
)

OPERATORS: Mapping[str, Rule] = MappingProxyType({**UNARY, **BINARY, **COMPARE, **LOGIC})


def whole_us(value_us: float) -> int:
    """Return a prediction as whole microseconds: max(1, trunc); NaN and overflow give the largest int64."""
    if math.isnan(value_us) or value_us >= float(INT64_MAX):
        return INT64_MAX
    return max(1, math.trunc(value_us)) if value_us > 1.0 else 1
