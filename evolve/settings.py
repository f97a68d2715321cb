"""The settings of a run: defaults, then a TOML file, then flags; written to the run folder as they were resolved.

Every key is declared once, here, with its range; unknown keys and wrong values are refused by file, key, got and want.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from archive import LARGEST_CAPACITY, Axes
from evolve.cores import usable_cores
from evolve.errors import UsageError
from translate.caps import Caps

CELLS_PER_ISLAND = Axes().cells
LARGEST_FILE_BYTES = 128 << 10
COMMAND_LINE = "command line"


class Section(BaseModel):
    """A table of the settings file: frozen, no unknown keys, no silent conversions."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class RunSettings(Section):
    """[run]: what is asked."""

    seed: int = Field(default=0, ge=0, le=2**63 - 1)
    budget: int = Field(default=1000, ge=1, le=10_000_000)
    """Programs that are fitted and scored. Refused text and duplicates cost none."""
    workers: int = Field(default=0, ge=0, le=1024)
    """Processes that evaluate; 0 stands for one per usable core and never reaches the run folder."""
    dataset: str = Field(default="h100-vllm", min_length=1, max_length=4096)
    """Name of a built-in benchmark, or a path."""
    dataset_digest: str = Field(default="", max_length=64)
    """SHA-256 of the experiments; where it is set, no other experiments are accepted."""
    runs: str = Field(default="runs", min_length=1, max_length=4096)
    """Folder that the run folders lie in."""


class SearchSettings(Section):
    """[search]: MAP-Elites on islands."""

    round_size: int = Field(default=16, ge=1, le=4096)
    islands: int = Field(default=4, ge=1, le=LARGEST_CAPACITY // CELLS_PER_ISLAND - 1)
    migration_interval: int = Field(default=10, ge=1, le=1_000_000)
    migration_rate: float = Field(default=0.1, ge=0.0, le=1.0)
    capacity: int = Field(default=1000, ge=CELLS_PER_ISLAND + 1, le=LARGEST_CAPACITY)

    @model_validator(mode="after")
    def _holds_every_cell(self) -> SearchSettings:
        if self.capacity <= CELLS_PER_ISLAND * self.islands:
            want = f"more than {CELLS_PER_ISLAND} cells x {self.islands} islands = {CELLS_PER_ISLAND * self.islands}"
            raise PydanticCustomError("capacity", "{key}", {"key": "capacity", "got": self.capacity, "want": want})
        return self


class CapSettings(Section):
    """[caps]: how large a program may be."""

    operations: int = Field(default=Caps().operations, ge=1, le=1000)
    conditionals: int = Field(default=Caps().conditionals, ge=0, le=100)
    constants: int = Field(default=Caps().constants, ge=0, le=100)

    def for_parser(self) -> Caps:
        """Return the caps as the parser takes them."""
        return Caps(operations=self.operations, conditionals=self.conditionals, constants=self.constants)


class Settings(Section):
    """All settings of a run."""

    run: RunSettings = RunSettings()
    search: SearchSettings = SearchSettings()
    caps: CapSettings = CapSettings()

    def to_toml(self) -> str:
        """Return the text that `read_settings` turns back into equal settings."""
        blocks = []
        for section, table in self.model_dump().items():
            lines = [f"{key} = {_toml_value(value)}" for key, value in table.items()]
            blocks.append("\n".join([f"[{section}]", *lines]) + "\n")
        return "\n".join(blocks)

    def search_digest(self) -> str:
        """Return a digest of what must not change within a run; the budget may grow, and workers change nothing."""
        decisive = [self.run.seed, self.search.model_dump(), self.caps.model_dump()]
        return hashlib.sha256(json.dumps(decisive).encode()).hexdigest()[:16]

    def resolved(self, dataset_digest: str) -> Settings:
        """Return the settings as a run folder keeps them: absolute paths, the workers counted, the dataset pinned."""
        path, runs = Path(self.run.dataset), Path(self.run.runs).absolute()
        dataset = str(path.absolute()) if path.exists() and not is_builtin(self.run.dataset) else self.run.dataset
        workers = self.run.workers or min(usable_cores(), self.search.round_size)
        update = {"workers": workers, "dataset": dataset, "dataset_digest": dataset_digest, "runs": str(runs)}
        return self.model_copy(update={"run": self.run.model_copy(update=update)})


def is_builtin(source: str) -> bool:
    """Say whether a dataset is one of the project's own; such a name wins over a path."""
    from evaluators.benchmark import builtin_names

    return source in builtin_names()


def read_settings(path: Path) -> Settings:
    """Return the settings of a file. Raises: UsageError: unreadable, not TOML, unknown key, wrong value."""
    return load_settings(path, {})


def load_settings(path: Path | None, flags: Mapping[str, Mapping[str, Any]]) -> Settings:
    """Return defaults overridden by a file, overridden by flags.

    Args:   flags: {section: {key: value}}; a value of None was not given.
    Raises: UsageError.
    """
    tables = {} if path is None else _read_toml(path)
    settings = _checked(tables, str(path))
    given = {name: {k: v for k, v in table.items() if v is not None} for name, table in flags.items()}
    merged = {name: {**getattr(settings, name).model_dump(), **given.get(name, {})} for name in Settings.model_fields}
    return _checked(merged, COMMAND_LINE)


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        if path.is_dir():
            raise UsageError(f"{path}: got a folder; want a TOML file of settings")
        with path.open("rb") as stream:
            data = stream.read(LARGEST_FILE_BYTES + 1)
    except (OSError, ValueError) as problem:
        reason = getattr(problem, "strerror", None) or str(problem)
        raise UsageError(f"{path}: cannot be read: {reason}") from None
    if len(data) > LARGEST_FILE_BYTES:
        raise UsageError(f"{path}: got more than {LARGEST_FILE_BYTES} bytes; want a page of settings")
    try:
        return tomllib.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError as problem:
        raise UsageError(f"{path}: got byte {problem.start} that is not UTF-8; want TOML") from None
    except (tomllib.TOMLDecodeError, RecursionError, ValueError) as problem:
        raise UsageError(f"{path}: not TOML: {problem}") from None


def _checked(tables: Mapping[str, Any], source: str) -> Settings:
    try:
        return Settings.model_validate(tables)
    except ValidationError as problem:
        raise UsageError(_message(problem, source)) from None


def _message(problem: ValidationError, source: str) -> str:
    """Return the first complaint; unknown keys come first, since a misspelt key explains a missing one."""
    errors = sorted(problem.errors(include_url=False), key=lambda error: error["type"] != "extra_forbidden")
    error = errors[0]
    section, key = (*(str(part) for part in error["loc"]), "", "")[:2]
    if error["type"] == "extra_forbidden":
        return _unknown(source, section, key)
    if error["type"] == "capacity":
        key, got, want = str(error["ctx"]["key"]), str(error["ctx"]["got"]), str(error["ctx"]["want"])
    else:
        got, want = _shown(error["input"]), _want(section, key)
    return f"{_place(source, section, key)}: got {got}; want {want}"


def _place(source: str, section: str, key: str) -> str:
    if source == COMMAND_LINE:
        return f"--{FLAGS.get((section, key), key.replace('_', '-'))}"
    return f"{source}: [{section}]" + (f" {key}" if key else "")


FLAGS = {
    ("run", "dataset"): "data",
    ("caps", "operations"): "max-operations",
    ("caps", "conditionals"): "max-conditionals",
    ("caps", "constants"): "max-constants",
}
"""Flags that are not called like their key."""


def _unknown(source: str, section: str, key: str) -> str:
    sections = Settings.model_fields
    if not key:
        homes = [name for name in sections if section in _keys(name)]
        meant = f"; it belongs in [{homes[0]}]" if homes else _did_you_mean(section, list(sections), "[{}]")
        return f"{source}: there is no section [{section}]{meant or '; want ' + ', '.join(f'[{s}]' for s in sections)}"
    meant = _did_you_mean(key, _keys(section), "`{}`")
    homes = [name for name in sections if key in _keys(name)]
    if homes:
        meant = f"; it belongs in [{homes[0]}]"
    return f"{source}: [{section}] has no key `{key}`{meant or '; want one of ' + ', '.join(_keys(section))}"


def _keys(section: str) -> list[str]:
    return list(_model(section).model_fields)


def _model(section: str) -> type[Section]:
    models: dict[str, type[Section]] = {"run": RunSettings, "search": SearchSettings, "caps": CapSettings}
    return models[section]


def _did_you_mean(name: str, known: list[str], form: str) -> str:
    near = get_close_matches(name.lower()[:200], known, n=1, cutoff=0.6)
    return f"; did you mean {form.format(near[0])}?" if near else ""


def _want(section: str, key: str) -> str:
    """Return what a key takes, from its declaration."""
    if not key:
        return "a table of keys and values"
    field = _model(section).model_fields[key]
    bounds = {type(rule).__name__: getattr(rule, type(rule).__name__.lower(), None) for rule in field.metadata}
    if field.annotation is str:
        return "text"
    noun = "a whole number" if field.annotation is int else "a number"
    return f"{noun} from {bounds['Ge']} to {bounds['Le']}"


def _shown(value: object) -> str:
    text = repr(value) if isinstance(value, str) else str(value)
    kind = "" if isinstance(value, int | float | str) else f"a {type(value).__name__}: "
    return kind + (text if len(text) <= 60 else f"{text[:57]}...")


def _toml_value(value: str | int | float) -> str:
    """Return a value as TOML; the text of a float reads back as the same float."""
    if isinstance(value, str):
        escaped = "".join(_toml_character(character) for character in value)
        return f'"{escaped}"'
    return repr(value)


def _toml_character(character: str) -> str:
    if character in '"\\':
        return "\\" + character
    code = ord(character)
    return f"\\u{code:04x}" if code < 0x20 or code == 0x7F else character
