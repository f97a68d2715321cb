"""From program text to the IR, or to the reason why not. Nothing in the text is ever executed."""

from __future__ import annotations

import ast
import keyword
import math
from collections.abc import Iterable

from translate.caps import Caps
from translate.complexity import conditional_places, measure, operation_places
from translate.errors import Code, Refusal, RefusedError
from translate.ir import Function, Program, Span
from translate.parse_body import NOUNS, assigned_names, parse_body
from translate.parse_expression import literal_value
from translate.parse_names import Scope, check_new_name, nearest
from translate.parse_text import Text, read_tree, refused
from translate.vocabulary import PARAMETERS, REQUIRED, Vocabulary

__all__ = ["Caps", "Vocabulary", "parse"]

DEFAULT_CAPS = Caps()


def parse(text: str, vocabulary: Vocabulary, caps: Caps = DEFAULT_CAPS) -> Program | Refusal:
    """Return the program in ``text``, or the first reason to refuse it.

    Args: vocabulary: the features that each function may read. caps: how large the program may be.
    Returns: a Program in normal form (see ``translate.ir``) within ``caps``, or a Refusal. Never raises on any text.
    """
    try:
        tree, source = read_tree(text, caps)
        program = _parse_module(tree, source, vocabulary, caps)
        _check_caps(program, caps)
    except RefusedError as error:
        return error.refusal
    return program


def _parse_module(tree: ast.Module, source: Text, vocabulary: Vocabulary, caps: Caps) -> Program:
    doc, body = _docstring(tree)
    names = _constant_names(body)
    constants: dict[str, float] | None = None
    functions: dict[str, Function] = {}
    for node in body:
        if isinstance(node, ast.FunctionDef):
            _check_signature(node, source, functions)
            functions[node.name] = _parse_function(node, source, names, vocabulary, caps)
        elif isinstance(node, ast.Assign) and _is_constants(node):
            if constants is not None:
                want, hint = "one CONSTANTS", "merge the two"
                raise refused(Code.CONSTANTS_TWICE, source.at(node), "a second CONSTANTS", want, hint)
            constants = _parse_constants(node, source)
        else:
            _check_import(node, source)
    if REQUIRED not in functions:
        end = Span(len(source.lines), 1)
        want, hint = f"`def {REQUIRED}(b):`", "the other functions are optional, this one is not"
        raise refused(Code.FUNCTION_MISSING, end, f"no {REQUIRED}", want, hint)
    return Program(doc, tuple((constants or {}).items()), tuple(functions.values()))


def _constant_names(body: list[ast.stmt]) -> frozenset[str]:
    """Return the names that CONSTANTS declares, wherever it stands; its form is checked in its turn."""
    dicts = (n.value for n in body if isinstance(n, ast.Assign) and _is_constants(n) and isinstance(n.value, ast.Dict))
    keys = (key.value for d in dicts for key in d.keys if isinstance(key, ast.Constant))
    return frozenset(key for key in keys if isinstance(key, str))


def _docstring(tree: ast.Module) -> tuple[str, list[ast.stmt]]:
    match tree.body:
        case [ast.Expr(value=ast.Constant(value=str(doc))), *rest]:
            return doc, rest
    return "", tree.body


def _is_constants(node: ast.Assign) -> bool:
    match node.targets:
        case [ast.Name(id="CONSTANTS")]:
            return True
    return False


def _check_import(node: ast.stmt, source: Text) -> None:
    at = source.at(node)
    want = "the docstring, `import math`, CONSTANTS and functions"
    match node:
        case ast.Import(names=[ast.alias(name="math", asname=None)]):
            return
        case ast.Import() | ast.ImportFrom():
            raise refused(
                Code.IMPORT, at, "an import", want, "only `import math` may stand here, and it may be left out"
            )
        case ast.Assign() | ast.AugAssign() | ast.AnnAssign():
            hint = 'declare constants in CONSTANTS = {"name": 1.0}'
            raise refused(Code.TOP_LEVEL, at, "an assignment outside the functions", want, hint)
    noun = NOUNS[type(node)][0] if type(node) in NOUNS else f"a statement of kind {type(node).__name__}"
    hint = "remove it; a program does nothing but define its functions"
    raise refused(Code.TOP_LEVEL, at, f"{noun} outside the functions", want, hint)


def _parse_constants(node: ast.Assign, source: Text) -> dict[str, float]:
    want = 'CONSTANTS = {"name": 1.0, ...}'
    if not isinstance(node.value, ast.Dict):
        hint = "write a dict literal of names and start values"
        raise refused(Code.CONSTANTS_FORM, source.at(node.value), "CONSTANTS that is not a dict literal", want, hint)
    constants: dict[str, float] = {}
    for key, value in zip(node.value.keys, node.value.values, strict=True):
        if not (isinstance(key, ast.Constant) and isinstance(key.value, str)):
            at = source.at(key if key is not None else value)
            raise refused(Code.CONSTANTS_FORM, at, "a key that is not a literal string", want, "name every constant")
        name, at = key.value, source.at(key)
        if not name.isascii() or not name.isidentifier() or keyword.iskeyword(name):
            got = f"the constant name {name[:60]!a}"
            raise refused(Code.CONSTANTS_FORM, at, got, "a Python identifier in ASCII", "rename the constant")
        check_new_name(name, at, (), "")
        if name in constants:
            raise refused(
                Code.CONSTANTS_TWICE, at, f"a second constant `{name}`", "each constant once", "remove or rename one"
            )
        constants[name] = _constant_value(value, name, source)
    return constants


def _constant_value(node: ast.expr, name: str, source: Text) -> float:
    sign = 1.0
    inner = node
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        sign = -1.0 if isinstance(node.op, ast.USub) else 1.0
        inner = node.operand
    value = literal_value(inner, source)
    if value is None:
        want, hint = "a number", "write the start value as a literal; it is fitted anyway"
        raise refused(Code.CONSTANTS_FORM, source.at(node), f"a start value of `{name}` that is no literal", want, hint)
    return math.copysign(value, sign)


def _check_signature(node: ast.FunctionDef, source: Text, seen: Iterable[str]) -> None:
    at = source.at(node)
    if node.name not in PARAMETERS:
        near = nearest(node.name, PARAMETERS)
        hint = f"did you mean `{near}`?" if near else "helper functions cannot be called; write the expression out"
        got = f"the function `{node.name[:60]}`"
        raise refused(Code.UNKNOWN_FUNCTION, at, got, "one of " + ", ".join(PARAMETERS), hint)
    if node.name in seen:
        raise refused(Code.FUNCTION_TWICE, at, f"a second `{node.name}`", "each function once", "remove or merge one")
    usual = PARAMETERS[node.name]
    want = f"def {node.name}({usual or ''}):"
    if node.decorator_list:
        raise refused(Code.SIGNATURE, source.at(node.decorator_list[0]), "a decorator", want, "remove the decorator")
    a = node.args
    if a.posonlyargs or a.kwonlyargs or a.vararg or a.kwarg or a.defaults or a.kw_defaults:
        raise refused(
            Code.SIGNATURE, at, "defaults, *, / or ** in the parameters", want, "take one plain parameter, or none"
        )
    if node.returns or any(arg.annotation for arg in a.args):
        raise refused(Code.SIGNATURE, at, "an annotation", want, "drop the annotations; every value is a float")
    if len(a.args) != (usual is not None):
        raise refused(Code.SIGNATURE, at, f"{len(a.args)} parameters", want, f"write `{want}`")


def _parse_function(
    node: ast.FunctionDef, source: Text, constants: frozenset[str], vocabulary: Vocabulary, caps: Caps
) -> Function:
    parameter = node.args.args[0].arg if node.args.args else None
    if parameter is not None:
        check_new_name(parameter, source.at(node.args.args[0]), constants, "a constant")
    scope = Scope(
        text=source,
        function=node.name,
        parameter=parameter,
        features=vocabulary.of(node.name) if parameter is not None else frozenset(),
        other_features=frozenset().union(*(vocabulary.of(name) for name in PARAMETERS)),
        constants=constants,
        later=assigned_names(node),
        depth_cap=caps.depth,
    )
    return Function(node.name, parameter, parse_body(node, scope), source.at(node))


def _check_caps(program: Program, caps: Caps) -> None:
    size = measure(program)
    if size.operations > caps.operations:
        got, want = f"{size.operations} operations", f"at most {caps.operations}"
        at = operation_places(program)[caps.operations]
        raise refused(
            Code.OPERATIONS, at, got, want, "drop the terms that matter least; comparisons count as operations too"
        )
    if size.conditionals > caps.conditionals:
        got, want = f"{size.conditionals} conditionals", f"at most {caps.conditionals}"
        at = conditional_places(program)[caps.conditionals]
        raise refused(Code.CONDITIONALS, at, got, want, "use max or min, which count as operations only")
    if size.constants > caps.constants:
        got, want = f"{size.constants} constants", f"at most {caps.constants}"
        raise refused(
            Code.CONSTANTS, Span(1, 1), got, want, "write well-known values as literals; merge or drop the rest"
        )
