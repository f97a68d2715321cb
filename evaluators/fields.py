"""Typed, checked access to what a foreign file holds: every complaint names file, field, found and wanted.

Readers raise `UnreadableError` inside and return its `DataError` at their public edge.
"""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import NoReturn, TypeVar

import yaml

from evaluators.experiment import DataError

T = TypeVar("T")

MAX_JSON_BYTES = 4 << 20
MAX_TABLE_BYTES = 16 << 20
MAX_SETTINGS_BYTES = 128 << 10
"""Cap on YAML and TOML files, which hold a page of settings; their parsers are slow."""
MAX_YAML_DEPTH = 20


class UnreadableError(Exception):
    """A source that cannot be read; carries the `DataError` that the public reader returns."""

    def __init__(self, error: DataError) -> None:
        super().__init__(str(error))
        self.error = error


def refuse(path: str | Path, field: str, got: str, want: str) -> NoReturn:
    """Raise `UnreadableError` with these four facts."""
    raise UnreadableError(DataError(str(path), field, got, want))


def nearest(name: str, known: Iterable[str], cutoff: float) -> str | None:
    """Return the known name most like this one, or None where none is alike enough."""
    folded = {entry.lower(): entry for entry in known}
    near = get_close_matches(name.lower()[:200], list(folded), n=1, cutoff=cutoff)
    return folded[near[0]] if near else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return ``; did you mean `x`?`` for the nearest known name, or nothing."""
    near = nearest(name, known, 0.6)
    return f"; did you mean `{near}`?" if near else ""


def shown(value: object) -> str:
    """Return a short text of a value for an error message; never expands a container."""
    if isinstance(value, Mapping | list | tuple):
        return f"a {type(value).__name__} of {len(value)}"
    if isinstance(value, int) and abs(value) > 10**50:
        return "a whole number of more than 50 digits"
    text = str(value) if isinstance(value, int | float) else ascii(value[:200] if isinstance(value, str) else value)
    return f"`{text}`" if len(text) <= 60 else f"`{text[:57]}...`"


def read_text(path: Path, max_bytes: int) -> str:
    """Return the UTF-8 text of a regular file of at most ``max_bytes``; a byte-order mark is dropped."""
    try:
        if not path.is_file():
            what = "a folder" if path.is_dir() else "a device or a pipe" if path.exists() else "nothing there"
            refuse(path, "file", what, "a readable file")
        with path.open("rb") as stream:
            data = stream.read(max_bytes + 1)
    except (OSError, ValueError) as problem:
        refuse(path, "file", type(problem).__name__, "a readable file")
    if len(data) > max_bytes:
        refuse(path, "file", f"more than {max_bytes} bytes", f"at most {max_bytes} bytes")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        refuse(path, "file", f"byte {problem.start} that is not UTF-8", "UTF-8 text")


@dataclass(frozen=True, slots=True)
class Fields:
    """One mapping of a file. ``prefix`` is its place in the file; in a table every value is text (``textual``)."""

    path: str
    values: Mapping[str, object]
    prefix: str = ""
    textual: bool = False

    def place(self, key: str) -> str:
        """Return the full name of a field."""
        return f"{self.prefix}{key}"

    def wrong(self, key: str, want: str) -> NoReturn:
        """Refuse the value of a field."""
        refuse(self.path, self.place(key), shown(self.values.get(key)), want)

    def has(self, key: str) -> bool:
        """Return whether the field holds something: null and empty text do not count."""
        value = self.values.get(key)
        return value is not None and not (isinstance(value, str) and not value.strip())

    def _value(self, key: str, want: str) -> object:
        if not self.has(key):
            near = nearest(key, self.values, 0.85)
            refuse(self.path, self.place(key), "nothing" + (f", but `{near}`" if near not in {None, key} else ""), want)
        return self.values[key]

    def number(self, key: str, low: float, high: float, default: float | None = None) -> float:
        """Return a finite number in [low, high]."""
        if default is not None and not self.has(key):
            return default
        want = f"a number from {low:g} to {high:g}"
        value = self._value(key, want)
        if self.textual and isinstance(value, str):
            try:
                value = float(value)
            except ValueError:
                self.wrong(key, want)
        if isinstance(value, bool) or not isinstance(value, int | float):
            self.wrong(key, want)
        if not low <= value <= high or not math.isfinite(value):
            self.wrong(key, want)
        return float(value)

    def integer(self, key: str, low: int, high: int, default: int | None = None) -> int:
        """Return a whole number in [low, high]; 8253.0 counts as one only in a table."""
        if default is not None and not self.has(key):
            return default
        want = f"a whole number from {low} to {high}"
        value = self._value(key, want)
        if not self.textual and (isinstance(value, bool) or not isinstance(value, int)):
            self.wrong(key, want)
        number = value if isinstance(value, int) else self.number(key, -math.inf, math.inf)
        if not low <= number <= high or number != int(number):
            self.wrong(key, want)
        return int(number)

    def text(self, key: str, default: str | None = None) -> str:
        """Return non-empty text of at most 200 characters."""
        if default is not None and not self.has(key):
            return default
        value = self._value(key, "text")
        if not isinstance(value, str) or len(value) > 200 or not value.isprintable():
            self.wrong(key, "printable text of 1 to 200 characters")
        return value.strip()

    def flag(self, key: str, default: bool) -> bool:
        """Return a truth value."""
        if not self.has(key):
            return default
        value = self.values[key]
        if self.textual and isinstance(value, str) and value.strip().lower() in {"true", "false", "0", "1"}:
            return value.strip().lower() in {"true", "1"}
        if not isinstance(value, bool):
            self.wrong(key, "true or false")
        return value

    def section(self, key: str) -> Fields:
        """Return a nested mapping."""
        return as_fields(self.path, self._value(key, "a mapping"), self.place(key) + ".")

    def sections(self, key: str, most: int = 1000) -> tuple[Fields, ...]:
        """Return a non-empty list of mappings."""
        want = f"a list of 1 to {most} mappings"
        value = self._value(key, want)
        if not isinstance(value, list) or not 1 <= len(value) <= most:
            self.wrong(key, want)
        return tuple(as_fields(self.path, item, f"{self.place(key)}[{n}].") for n, item in enumerate(value))

    def texts(self, key: str) -> tuple[str, ...]:
        """Return a list of texts, empty where the field is missing."""
        if not self.has(key):
            return ()
        value = self.values[key]
        if not isinstance(value, list) or not all(isinstance(item, str) and item for item in value):
            self.wrong(key, "a list of texts")
        return tuple(value)


def as_fields(path: str, value: object, prefix: str = "") -> Fields:
    """Return a mapping as `Fields`; refuse anything else."""
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        refuse(path, prefix.rstrip(".") or "file", shown(value), "a mapping with text keys")
    return Fields(path, value, prefix)


def found(value: T | DataError, at: Fields, key: str) -> T:
    """Return a looked-up value; where the look-up failed, refuse the field that named it."""
    if isinstance(value, DataError):
        refuse(at.path, at.place(key), value.got, value.want)
    return value


def read_json(path: Path) -> Fields:
    """Return the object that a JSON file holds."""
    text = read_text(path, MAX_JSON_BYTES)

    def constant(name: str) -> NoReturn:
        refuse(path, "file", name, "finite numbers")

    try:
        value = json.loads(text, parse_constant=constant)
    except json.JSONDecodeError as problem:
        refuse(path, f"line {problem.lineno}", problem.msg, "a complete JSON document")
    except (RecursionError, ValueError) as problem:
        refuse(path, "file", type(problem).__name__, "JSON nested a few levels deep, with numbers of ordinary size")
    return as_fields(str(path), value)


def read_yaml(path: Path) -> Fields:
    """Return the mapping that a YAML file holds; aliases are refused before anything is built."""
    text = read_text(path, MAX_SETTINGS_BYTES)
    try:
        _refuse_costly_yaml(path, text)
        value = yaml.safe_load(text)
    except yaml.YAMLError as problem:
        mark = getattr(problem, "problem_mark", None)
        place = f"line {mark.line + 1}" if mark is not None else "file"
        refuse(path, place, shown(getattr(problem, "problem", None) or "broken YAML"), "a YAML document")
    except (RecursionError, ValueError, OverflowError, TypeError) as problem:
        refuse(path, "file", type(problem).__name__, "YAML nested a few levels deep, with values of ordinary size")
    return as_fields(str(path), value)


def _refuse_costly_yaml(path: Path, text: str) -> None:
    """Refuse aliases, which can grow without bound, and deep nesting, which takes quadratic time."""
    depth = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        if isinstance(event, yaml.AliasEvent):
            refuse(path, "file", "a YAML alias", "plain YAML without `*alias`")
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_YAML_DEPTH:
            refuse(path, "file", f"more than {MAX_YAML_DEPTH} levels", "YAML nested a few levels deep")


def read_toml(path: Path) -> Fields:
    """Return the table that a TOML file holds."""
    text = read_text(path, MAX_SETTINGS_BYTES)
    try:
        value = tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        refuse(path, "file", str(problem), "a TOML document")
    except (RecursionError, ValueError) as problem:
        refuse(path, "file", type(problem).__name__, "TOML nested a few levels deep")
    return as_fields(str(path), value)
