"""Function bodies: assignments, branches and returns, with every path followed to its end."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from translate.errors import Code
from translate.ir import Assign, Binary, Branch, Return, Stmt
from translate.parse_expression import binary_op, check_depth, parse_condition, parse_number
from translate.parse_names import Scope, check_new_name
from translate.parse_text import refused

NOUNS: dict[type[ast.AST], tuple[str, str]] = {
    ast.For: ("a `for` loop", "write the terms out; there are no loops"),
    ast.AsyncFor: ("a `for` loop", "write the terms out; there are no loops"),
    ast.While: ("a `while` loop", "write the terms out; there are no loops"),
    ast.FunctionDef: ("a nested function", "write the expression where it is used"),
    ast.AsyncFunctionDef: ("a nested function", "write the expression where it is used"),
    ast.ClassDef: ("a class", "a program has functions of arithmetic only"),
    ast.Import: ("an import", "math needs none inside a function"),
    ast.ImportFrom: ("an import", "math needs none inside a function"),
    ast.Delete: ("`del`", "leave the local as it is"),
    ast.Global: ("`global`", "constants are declared in CONSTANTS and only read"),
    ast.Nonlocal: ("`nonlocal`", "constants are declared in CONSTANTS and only read"),
    ast.Try: ("`try`", "no operation raises: division by zero gives inf or NaN"),
    ast.TryStar: ("`try`", "no operation raises: division by zero gives inf or NaN"),
    ast.With: ("`with`", "a program has arithmetic only"),
    ast.AsyncWith: ("`with`", "a program has arithmetic only"),
    ast.Raise: ("`raise`", "return a number instead"),
    ast.Assert: ("`assert`", "return a number instead"),
    ast.Match: ("`match`", "use if and elif"),
    ast.Expr: ("an expression that stands alone", "assign it to a local or return it"),
    ast.Break: ("`break`", "there are no loops"),
    ast.Continue: ("`continue`", "there are no loops"),
}


@dataclass(frozen=True, slots=True)
class _Block:
    """Parsed statements, the locals set after them, and whether every path through them returns."""

    statements: tuple[Stmt, ...]
    assigned: frozenset[str]
    returns: bool


def parse_body(node: ast.FunctionDef, scope: Scope) -> tuple[Stmt, ...]:
    """Return the statements of a function; a docstring is dropped. Raises: RefusedError."""
    statements = node.body
    first = statements[0]
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
        statements = statements[1:]
    block = _parse_block(statements, scope, 0)
    if not block.returns:
        raise refused(
            Code.NO_RETURN,
            scope.text.at(node),
            f"a path through {node.name} that ends without a return",
            "a `return` on every path",
            "end the function with `return`",
        )
    return block.statements


def assigned_names(node: ast.FunctionDef) -> frozenset[str]:
    """Return every name that the function assigns somewhere."""
    names = (n for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
    return frozenset(n.id for n in names)


def _parse_block(nodes: list[ast.stmt], scope: Scope, depth: int) -> _Block:
    statements: list[Stmt] = []
    returns = False
    for node in nodes:
        check_depth(node, scope, depth)
        if returns:
            raise refused(
                Code.UNREACHABLE,
                scope.text.at(node),
                "a statement that no path reaches",
                "nothing after a return",
                "remove it, or move it before the return",
            )
        match node:
            case ast.Pass():
                continue
            case ast.If():
                branch, returns = _parse_branch(node, scope, depth)
                statements.append(branch)
            case ast.Return():
                statements.append(_parse_return(node, scope))
                returns = True
            case _:
                statements.append(_parse_assignment(node, scope))
    return _Block(tuple(statements), scope.assigned, returns)


def _parse_branch(node: ast.If, scope: Scope, depth: int) -> tuple[Branch, bool]:
    condition = parse_condition(node.test, scope)
    before = scope.assigned
    then = _parse_block(node.body, scope, depth + 1)
    scope.assigned = before
    otherwise = _parse_block(node.orelse, scope, depth + 1)
    if then.returns:
        scope.assigned = otherwise.assigned
    elif otherwise.returns:
        scope.assigned = then.assigned
    else:
        scope.assigned = then.assigned & otherwise.assigned
    branch = Branch(condition, then.statements, otherwise.statements, scope.text.at(node))
    return branch, then.returns and otherwise.returns


def _parse_return(node: ast.Return, scope: Scope) -> Return:
    at = scope.text.at(node)
    if node.value is None:
        raise refused(
            Code.NO_RETURN, at, "a `return` without a value", "a number in microseconds", "return an expression"
        )
    return Return(parse_number(node.value, scope), at)


def _parse_assignment(node: ast.stmt, scope: Scope) -> Assign:
    at = scope.text.at(node)
    if isinstance(node, ast.AugAssign):
        name = _target(node.target, scope)
        op = binary_op(node.op, node, scope)
        old = ast.copy_location(ast.Name(id=name, ctx=ast.Load()), node.target)
        left = parse_number(old, scope)
        return _assign(name, Assign(name, Binary(op, left, parse_number(node.value, scope), at), at), scope)
    if isinstance(node, ast.AnnAssign):
        raise refused(
            Code.TARGET, at, "an annotated assignment", "name = value", "drop the annotation; every value is a float"
        )
    if not isinstance(node, ast.Assign):
        noun, hint = NOUNS.get(type(node), (f"a statement of kind {type(node).__name__}", "use name = value"))
        raise refused(Code.STATEMENT, at, noun, "an assignment, if/elif/else or return", hint)
    if len(node.targets) != 1:
        raise refused(
            Code.TARGET, at, "several targets in one assignment", "name = value", "write one assignment per line"
        )
    name = _target(node.targets[0], scope)
    return _assign(name, Assign(name, parse_number(node.value, scope), at), scope)


def _assign(name: str, statement: Assign, scope: Scope) -> Assign:
    scope.assigned |= {name}
    return statement


def _target(node: ast.expr, scope: Scope) -> str:
    at = scope.text.at(node)
    if not isinstance(node, ast.Name):
        raise refused(
            Code.TARGET, at, "a target that is not a plain name", "name = value", "write one assignment per line"
        )
    check_new_name(node.id, at, scope.constants, "a constant")
    if node.id == scope.parameter:
        raise refused(
            Code.NAME_CLASH,
            at,
            f"`{node.id}` as a local",
            "a name that is free",
            f"`{node.id}` is the input; rename the local",
        )
    return node.id
