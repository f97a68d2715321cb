"""The programs that a run begins with: the files of ``seeds/``, in order of their names."""

from __future__ import annotations

from importlib.resources import files

from evaluators.features import VOCABULARY
from translate.caps import Caps
from translate.errors import Code, Refusal
from translate.ir import Program
from translate.parse import parse

TOO_LARGE = frozenset({Code.OPERATIONS, Code.CONDITIONALS, Code.CONSTANTS})


def seed_programs(caps: Caps) -> tuple[Program, ...]:
    """Return the seed programs that keep within the caps.

    Raises: RuntimeError: a seed is refused for another reason; it is the project's own file, so that is a bug.
    """
    programs = []
    for file in sorted(files("seeds").iterdir(), key=lambda entry: entry.name):
        if not file.name.endswith(".py") or file.name.startswith("_"):
            continue
        program = parse(file.read_text(encoding="utf-8"), VOCABULARY, caps)
        if not isinstance(program, Refusal):
            programs.append(program)
        elif program.code not in TOO_LARGE:
            raise RuntimeError(f"seeds/{file.name}: {program}")
    return tuple(programs)
