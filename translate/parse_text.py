"""From text to Python's syntax tree, and no further: bounds first, ``ast.parse`` last, nothing executed."""

from __future__ import annotations

import ast
import io
import re
import tokenize
import warnings
from dataclasses import dataclass

from translate.caps import Caps
from translate.errors import Code, Refusal, RefusedError
from translate.ir import Span

_TOKEN = re.compile(r"\w+|[^\w\s]")


@dataclass(frozen=True, slots=True)
class Text:
    """A program text with ``\\n`` line ends; turns places of the syntax tree into spans."""

    lines: tuple[str, ...]

    def at(self, node: ast.AST) -> Span:
        """Return where ``node`` begins; Python counts its columns in UTF-8 bytes from 0."""
        line: int = getattr(node, "lineno", 1)
        column: int = getattr(node, "col_offset", 0)
        before = self.lines[line - 1].encode()[:column].decode(errors="replace")
        return Span(line, len(before) + 1)


def refused(code: Code, at: Span, got: str, want: str, hint: str) -> RefusedError:
    """Return what to raise to leave the parser with a refusal."""
    return RefusedError(Refusal(code, at.line, at.column, got, want, hint))


def read_tree(text: str, caps: Caps) -> tuple[ast.Module, Text]:
    """Return the syntax tree of ``text``.

    Raises: RefusedError where the text is too long, too deep, not text, or not Python.
    """
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    source = Text(tuple(text.split("\n")))
    _check_characters(text, source)
    _check_size(text, caps)
    tree = _parse(text, source)
    if not text.isascii():
        _check_names_are_ascii(text)
    return tree, source


def _check_characters(text: str, source: Text) -> None:
    for number, line in enumerate(source.lines, start=1):
        for column, character in enumerate(line, start=1):
            if character == "\0" or "\ud800" <= character <= "\udfff":
                raise refused(
                    Code.NOT_TEXT,
                    Span(number, column),
                    f"the character U+{ord(character):04X}",
                    "plain text",
                    "remove the character; save the file as UTF-8",
                )


def _check_size(text: str, caps: Caps) -> None:
    size = len(text.encode())
    want = f"at most {caps.text_bytes} bytes and {caps.tokens} words and marks"
    hint = "a program is one docstring, CONSTANTS and a few lines of arithmetic"
    if size > caps.text_bytes:
        raise refused(Code.TOO_LONG, Span(1, 1), f"{size} bytes", want, hint)
    tokens = sum(1 for _ in _TOKEN.finditer(text))
    if tokens > caps.tokens:
        raise refused(Code.TOO_LONG, Span(1, 1), f"{tokens} words and marks", want, hint)


def _parse(text: str, source: Text) -> ast.Module:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except SyntaxError as error:
        line = min(max(error.lineno or 1, 1), len(source.lines))
        reason = _plain(error.msg)
        if "too many" in reason and ("nested" in reason or "indentation" in reason):
            raise _too_deep(Span(line, max(error.offset or 1, 1))) from None
        raise refused(
            Code.SYNTAX,
            Span(line, max(error.offset or 1, 1)),
            f"a syntax error ({reason})",
            "Python text",
            "send the bare program text, without Markdown fences or commentary",
        ) from None
    except (RecursionError, MemoryError):
        raise _too_deep(Span(1, 1)) from None
    except ValueError as error:
        raise refused(
            Code.SYNTAX, Span(1, 1), f"unreadable text ({_plain(str(error))})", "Python text", "shorten the literals"
        ) from None


def _too_deep(at: Span) -> RefusedError:
    return refused(
        Code.TOO_DEEP,
        at,
        "nesting that Python's own parser gives up on",
        "expressions nested a few levels deep",
        "assign the inner parts to locals",
    )


def _check_names_are_ascii(text: str) -> None:
    """Refuse look-alike letters, which Python would quietly turn into ASCII ones (NFKC)."""
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type not in (tokenize.STRING, tokenize.COMMENT) and not token.string.isascii():
                line, column = token.start
                raise refused(
                    Code.NON_ASCII_NAME,
                    Span(line, column + 1),
                    f"the name {ascii(token.string)[:60]}",
                    "ASCII letters, digits and _ in names",
                    "spell the name in ASCII; other letters may stand in the docstring and in comments",
                )
    except (tokenize.TokenError, SyntaxError) as error:
        reason = _plain(str(error))
        raise refused(
            Code.SYNTAX, Span(1, 1), f"a syntax error ({reason})", "Python text", "keep to ASCII outside strings"
        ) from None


def _plain(message: str) -> str:
    """Return a message of Python's on one short line, without its advice on interpreter settings."""
    return " ".join(message.split(";", maxsplit=1)[0].split())[:120]
