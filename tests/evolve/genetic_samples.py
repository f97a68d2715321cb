"""Parents of every kind for the genetic operators."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from evaluators.features import VOCABULARY
from evolve.proposal import Parent
from seeds import seed_texts
from translate.ir import Program
from translate.parse import Caps, parse
from translate.random_programs import random_program
from translate.source import to_source

CAPS = Caps()

ODD = {
    "one feature": 'def predict_step_time(b):\n    return b["gemm_time"]\n',
    "one number": "def predict_step_time(b):\n    return 9000.0\n",
    "one constant": 'CONSTANTS = {"k": 9000.0}\ndef predict_step_time(b):\n    return k\n',
    "unused constant": 'CONSTANTS = {"k": 1.0, "z": 0.0}\ndef predict_step_time(b):\n    return k * b["weight_load"]\n',
    "zero constants": 'CONSTANTS = {"k": 0.0, "z": 0.0}\ndef predict_step_time(b):\n    return k * b["layers"] + z\n',
    "several assignments in a branch": (
        'CONSTANTS = {"k": 1.0, "f": 2.0}\ndef predict_step_time(b):\n    x = 1.0\n    y = 2.0\n'
        '    z = 3.0\n    w = 0.0\n'
        '    if b["tp"] > 1.0:\n        x = k * b["tp_comm"]\n        y = f * b["tp_hops"]\n        z = b["layers"]\n'
        '        w = k * b["allreduce_time"]\n    return x + y + z + w + b["weight_load"]\n'
    ),
    "as many constants as may be": (
        "CONSTANTS = {" + ", ".join(f'"k{i}": {i + 1}.0' for i in range(10))
        + "}\ndef predict_step_time(b):\n    return "
        + " + ".join(f'k{i} * b["{n}"]' for i, n in enumerate(
            ("layers", "tp", "batch_size", "kv_read", "weight_load", "gemm_time", "lm_head", "tp_hops", "kv_mean",
             "hidden"))) + "\n"
    ),
    "as many operations as may be": (
        "def predict_step_time(b):\n    return " + " + ".join(['b["weight_load"]', 'b["kv_read"]'] * 15)
        + ' + b["lm_head"]\n'
    ),
    "far larger written out": (
        'CONSTANTS = {"k": 0.001}\ndef predict_step_time(b):\n    x = k * b["weight_load"]\n'
        + "".join(f"    x{i} = x{i - 1 if i else ''} * x{i - 1 if i else ''} + k\n" for i in range(12))
        + "    return x11\n"
    ),
    "every function": (
        'CONSTANTS = {"a": 1.0, "q": 9.0, "o": 5.0, "s": 3.0, "p": 4.0}\n'
        'def predict_step_time(b):\n    return a * max(b["total_bytes"], b["total_flops"])\n'
        'def predict_queueing_time(r):\n    return q + a * r["prompt_tokens"]\n'
        "def predict_output_token_time():\n    return o\ndef predict_scheduling_time():\n    return s\n"
        "def predict_preemption_time():\n    return p\n"
    ),
}  # fmt: skip


def program(text: str, caps: Caps = CAPS) -> Program:
    found = parse(text, VOCABULARY, caps)
    assert isinstance(found, Program), str(found)
    return found


@lru_cache(maxsize=1)
def seeds() -> tuple[Parent, ...]:
    return tuple(Parent(name, program(text)) for name, text in seed_texts().items())


@lru_cache(maxsize=1)
def parents() -> tuple[Parent, ...]:
    """Seeds, odd programs, and random ones that no person would write."""
    odd = tuple(Parent(name, program(text)) for name, text in ODD.items())
    wild = tuple(Parent(f"random {i}", random_program(np.random.default_rng(i), VOCABULARY)) for i in range(22))
    return (*seeds(), *odd, *wild)


def is_valid(candidate: Program, caps: Caps = CAPS) -> bool:
    """Whether the text reads back as the same program, which parse does only within the caps."""
    return parse(to_source(candidate), VOCABULARY, caps) == candidate
