"""Units of expressions, so that mutations add microseconds to microseconds only; a constant bridges any two units."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from types import MappingProxyType
from typing import assert_never

from evaluators.features import FEATURES, REQUEST_FEATURES
from translate.complexity import children
from translate.ir import Binary, Choice, Compare, Cond, Constant, Expr, Feature, Local, Logic, Not, Number, Unary

Unit = tuple[tuple[str, Fraction], ...]
"""Base units and their exponents, sorted; ``()`` is a pure number."""

PURE: Unit = ()
US: Unit = (("us", Fraction(1)),)
PURE_NAMES = frozenset({"count", "GPUs", "0 or 1", "1e9", "heads", "values", "requests"})
"""Units of the feature table that count things: they multiply and divide freely, like pure numbers."""


def _unit(text: str) -> Unit:
    if text in PURE_NAMES:
        return PURE
    base, _, exponent = text.partition("^")
    return ((base, Fraction(exponent or 1)),)


FEATURE_UNITS: Mapping[str, Unit] = MappingProxyType({f.name: _unit(f.unit) for f in (*FEATURES, *REQUEST_FEATURES)})


def unit_of(node: Expr) -> Unit | None:
    """Return the unit of an expression; None where a constant or a literal makes it any."""
    match node:
        case Number() | Constant() | Local():
            return None
        case Feature(name):
            return FEATURE_UNITS.get(name)
        case Unary("neg" | "abs", operand):
            return unit_of(operand)
        case Unary("sqrt", operand):
            return _power(unit_of(operand), Fraction(1, 2))
        case Unary():
            return PURE
        case Binary("mul", left, right):
            return _product(unit_of(left), unit_of(right), 1)
        case Binary("div", left, right):
            return _product(unit_of(left), unit_of(right), -1)
        case Binary("pow", base, exponent):
            if isinstance(exponent, Number):
                return _power(unit_of(base), Fraction(exponent.value).limit_denominator(100))
            return None
        case Binary(_, left, right) | Choice(_, left, right):
            first = unit_of(left)
            return unit_of(right) if first is None else first
        case _:
            assert_never(node)


def compatible(first: Unit | None, second: Unit | None) -> bool:
    """Tell whether two values may be added."""
    return first is None or second is None or first == second


def consistent(node: Expr | Cond) -> bool:
    """Tell whether nothing is added to, compared with, or chosen instead of something of another unit."""
    if not all(consistent(child) for child in children(node) if not isinstance(child, Number | Constant | Feature)):  # type: ignore[arg-type]
        return False
    match node:
        case Binary("add" | "sub" | "min" | "max", left, right) | Compare(_, left, right) | Choice(_, left, right):
            return compatible(unit_of(left), unit_of(right))
        case Unary("log" | "log1p" | "exp" | "expm1", operand):
            return compatible(unit_of(operand), PURE)
        case Number() | Constant() | Feature() | Local() | Unary() | Binary() | Logic() | Not():
            return True
        case _:
            assert_never(node)


def _product(left: Unit | None, right: Unit | None, sign: int) -> Unit | None:
    if left is None or right is None:
        return None
    exponents = dict(left)
    for base, exponent in right:
        exponents[base] = exponents.get(base, Fraction(0)) + sign * exponent
    return tuple(sorted((base, exponent) for base, exponent in exponents.items() if exponent != 0))


def _power(unit: Unit | None, exponent: Fraction) -> Unit | None:
    return None if unit is None else tuple((base, old * exponent) for base, old in unit if exponent != 0)
