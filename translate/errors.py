"""Why a program text was refused: one value, one text for the user, the LLM and the journal."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Code(StrEnum):
    """Every reason for a refusal; ``MEANINGS`` says what each stands for."""

    NOT_TEXT = "TR001"
    TOO_LONG = "TR002"
    SYNTAX = "TR003"
    TOO_DEEP = "TR004"
    NON_ASCII_NAME = "TR005"
    TOP_LEVEL = "TR010"
    IMPORT = "TR011"
    CONSTANTS_FORM = "TR012"
    CONSTANTS_TWICE = "TR013"
    NAME_CLASH = "TR014"
    UNKNOWN_FUNCTION = "TR015"
    FUNCTION_TWICE = "TR016"
    FUNCTION_MISSING = "TR017"
    SIGNATURE = "TR018"
    STATEMENT = "TR020"
    TARGET = "TR021"
    UNREACHABLE = "TR022"
    NO_RETURN = "TR023"
    EXPRESSION = "TR030"
    OPERATOR = "TR031"
    CALL = "TR032"
    ARGUMENTS = "TR033"
    LITERAL = "TR034"
    UNKNOWN_NAME = "TR035"
    UNASSIGNED = "TR036"
    UNKNOWN_FEATURE = "TR037"
    INPUT_USE = "TR038"
    WANTED_NUMBER = "TR039"
    WANTED_CONDITION = "TR040"
    OPERATIONS = "TR050"
    CONDITIONALS = "TR051"
    CONSTANTS = "TR052"


MEANINGS: dict[Code, str] = {
    Code.NOT_TEXT: "the text holds characters that no program can hold",
    Code.TOO_LONG: "the text is longer than the cap",
    Code.SYNTAX: "the text is not Python",
    Code.TOO_DEEP: "expressions or branches are nested deeper than the cap",
    Code.NON_ASCII_NAME: "a name holds other than ASCII letters, digits and _",
    Code.TOP_LEVEL: "a statement outside the functions that is not the docstring, `import math` or CONSTANTS",
    Code.IMPORT: "an import other than `import math`",
    Code.CONSTANTS_FORM: "CONSTANTS is not a dict literal from names to finite numbers",
    Code.CONSTANTS_TWICE: "CONSTANTS, or a constant in it, is declared twice",
    Code.NAME_CLASH: "a name is already taken",
    Code.UNKNOWN_FUNCTION: "a function that the simulator does not call",
    Code.FUNCTION_TWICE: "a function is defined twice",
    Code.FUNCTION_MISSING: "predict_step_time is not defined",
    Code.SIGNATURE: "a function with other parameters than its interface has",
    Code.STATEMENT: "a statement that the language does not have",
    Code.TARGET: "an assignment to other than one plain name",
    Code.UNREACHABLE: "a statement that no path reaches",
    Code.NO_RETURN: "a path that ends without a return",
    Code.EXPRESSION: "an expression that the language does not have",
    Code.OPERATOR: "an operator that the language does not have",
    Code.CALL: "a call of a function that the language does not have",
    Code.ARGUMENTS: "a call with the wrong arguments",
    Code.LITERAL: "a literal that is not a finite real number",
    Code.UNKNOWN_NAME: "a name that is neither a constant nor a local",
    Code.UNASSIGNED: "a local that is read before it is set on every path",
    Code.UNKNOWN_FEATURE: "a feature that this function's input does not have",
    Code.INPUT_USE: "the input is used other than by a literal feature name",
    Code.WANTED_NUMBER: "a condition stands where a number is wanted",
    Code.WANTED_CONDITION: "a number stands where a condition is wanted",
    Code.OPERATIONS: "more operations than the cap",
    Code.CONDITIONALS: "more conditionals than the cap",
    Code.CONSTANTS: "more constants than the cap",
}


CAP_CODES = frozenset({Code.OPERATIONS, Code.CONDITIONALS, Code.CONSTANTS})
"""Refusals that higher caps would lift."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A refused program: the first problem in it. Line and column count from 1."""

    code: Code
    line: int
    column: int
    got: str
    want: str
    hint: str

    def __str__(self) -> str:
        return f"{self.code} line {self.line}:{self.column}: got {self.got}; want {self.want}. Hint: {self.hint}"


class RefusedError(Exception):
    """Carries a refusal from deep inside the parser to ``parse``; never leaves this package."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(str(refusal))
        self.refusal = refusal
