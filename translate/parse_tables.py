"""What Python's operators and calls are called in the IR, and what to say of those that have no name there."""

from __future__ import annotations

import ast

from translate.ir import BinaryOp, CompareOp, UnaryOp

BINARY: dict[type[ast.operator], BinaryOp] = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.Div: "div",
    ast.Pow: "pow",
}
COMPARE: dict[type[ast.cmpop], CompareOp] = {
    ast.Lt: "lt",
    ast.LtE: "le",
    ast.Gt: "gt",
    ast.GtE: "ge",
    ast.Eq: "eq",
    ast.NotEq: "ne",
}
UNARY_CALLS: dict[str, UnaryOp] = {
    "abs": "abs",
    "math.sqrt": "sqrt",
    "math.log": "log",
    "math.log1p": "log1p",
    "math.exp": "exp",
    "math.expm1": "expm1",
}
FOLDS: dict[str, BinaryOp] = {"min": "min", "max": "max"}
CALLS = (*FOLDS, *UNARY_CALLS)
SIGNS: dict[type[ast.operator], str] = {
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.MatMult: "@",
    ast.LShift: "<<",
    ast.RShift: ">>",
    ast.BitAnd: "&",
    ast.BitOr: "|",
    ast.BitXor: "^",
}
NOUNS: dict[type[ast.AST], tuple[str, str]] = {
    ast.Lambda: ("a lambda", "write the expression where it is used"),
    ast.ListComp: ("a comprehension", "write the terms out; there are no loops"),
    ast.SetComp: ("a comprehension", "write the terms out; there are no loops"),
    ast.DictComp: ("a comprehension", "write the terms out; there are no loops"),
    ast.GeneratorExp: ("a comprehension", "write the terms out; there are no loops"),
    ast.JoinedStr: ("an f-string", "values are numbers only"),
    ast.NamedExpr: ("the `:=` operator", "assign on a line of its own"),
    ast.Await: ("`await`", "values are numbers only"),
    ast.Yield: ("`yield`", "end the function with `return`"),
    ast.YieldFrom: ("`yield from`", "end the function with `return`"),
    ast.Starred: ("a starred expression", "write the arguments out"),
    ast.Dict: ("a dict", "values are numbers only"),
    ast.Set: ("a set", "values are numbers only"),
    ast.List: ("a list", "values are numbers only"),
    ast.Tuple: ("a tuple", "values are numbers only"),
    ast.Slice: ("a slice", "values are numbers only"),
}
CALL_HINTS = {
    "pow": "write `x ** y`",
    "math.pow": "write `x ** y`",
    "math.fabs": "write `abs(x)`",
    "np.maximum": "write `max(x, y)`",
    "np.minimum": "write `min(x, y)`",
    "float": "every value is a float already",
    "int": "every value is a float; the result is turned into whole microseconds at the end",
    "round": "every value is a float; the result is turned into whole microseconds at the end",
    "math.floor": "every value is a float; the result is turned into whole microseconds at the end",
    "math.ceil": "every value is a float; the result is turned into whole microseconds at the end",
    "sum": "write the terms out with `+`",
    "math.log2": "write `math.log(x) / 0.6931471805599453`",
    "math.log10": "write `math.log(x) / 2.302585092994046`",
}
