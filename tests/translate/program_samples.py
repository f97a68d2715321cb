"""A small vocabulary, a readable program, and inputs that hold every kind of float."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from translate.errors import Refusal
from translate.ir import Program
from translate.parse import DEFAULT_CAPS, Caps, Vocabulary, parse

F64 = NDArray[np.float64]

VOCABULARY = Vocabulary(
    {
        "predict_step_time": frozenset({"weight_load", "kv_read", "prefill_gemm", "decode_gemm"}),
        "predict_queueing_time": frozenset({"waiting", "prompt_tokens"}),
    }
)
FEATURES = ("weight_load", "kv_read", "prefill_gemm", "decode_gemm", "waiting", "prompt_tokens")
NO_CAPS = Caps(operations=10**6, conditionals=10**6, constants=10**6)

SPECIALS = np.array(
    [
        *(
            0.0,
            -0.0,
            1.0,
            -1.0,
            2.0,
            3.0,
            0.5,
            -0.5,
            -2.0,
            -3.0,
            1e-3,
            128.0,
            1e6,
            709.0,
            710.0,
            -745.0,
            -746.0,
            1e-17,
            2.5,
        ),
        *(5e-324, -5e-324, 1e-310, -1e-310, 2.2250738585072014e-308, 1e308, -1e308, 1.7976931348623157e308),
        *(-1.7976931348623157e308, 2.0**53, -(2.0**53) - 2, 9.007199254740993e15, np.inf, -np.inf, np.nan),
    ]
)

OVERLAP = '''"""Memory traffic and compute overlap; a fixed launch cost on top."""
CONSTANTS = {"launch": 900.0, "bw": 1.1, "mfu": 2.0}

def predict_step_time(b):
    memory = bw * (b["weight_load"] + b["kv_read"])
    compute = mfu * (b["prefill_gemm"] + b["decode_gemm"])
    return max(memory, compute) + launch
'''


def accepted(text: str, caps: Caps = NO_CAPS) -> Program:
    program = parse(text, VOCABULARY, caps)
    assert isinstance(program, Program), str(program)
    return program


def refused(text: str, caps: Caps = DEFAULT_CAPS) -> Refusal:
    refusal = parse(text, VOCABULARY, caps)
    assert isinstance(refusal, Refusal), refusal
    return refusal


def step(body: str, constants: str = "") -> str:
    """A program whose predict_step_time has ``body``, its lines separated by ``;;``."""
    lines = "\n".join("    " + line for line in body.split(";;"))
    return f"{constants}\ndef predict_step_time(b):\n{lines}\n"


def columns(rng: np.random.Generator, n: int, rows: int = len(FEATURES)) -> F64:
    """(rows, n) inputs: over half of them special values, the rest of any magnitude."""
    special = rng.choice(SPECIALS, (rows, n))
    return np.where(rng.random((rows, n)) < 0.6, special, rng.lognormal(2.0, 4.0, (rows, n)))


def same_bits(a: F64, b: F64) -> bool:
    """Equal including the sign of zeros; one NaN is like another."""
    nan = np.isnan(a) & np.isnan(b)
    return bool(np.all(nan | ((a == b) & (np.signbit(a) == np.signbit(b)))))
