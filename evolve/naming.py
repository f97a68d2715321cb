"""Names for constants and locals, and a line of prose, from what a formula consists of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from evolve.alphabet import CATEGORY, OUTPUT_TOKEN, QUEUEING, STEP
from evolve.subtrees import Node, arguments_of, factors_of, leaves, names_of, parts, terms_of
from translate.ir import Binary, Choice, Compare, Constant, Expr, Feature, Number, Unary

NOUNS: Mapping[str, str] = MappingProxyType(
    {
        "tp_hops": "hop", "layers": "layer", "moe_layers": "moe_layer", "tp": "gpu", "is_moe": "moe",
        "batch_size": "request", "decode_reqs": "decode", "prefill_reqs": "prefill", "total_tokens": "token",
        "padded_tokens": "padded_token", "prefill_tokens": "prefill_token", "decode_tokens": "decode_token",
        "prompt_tokens": "prompt_token", "kv_sum": "kv_token", "kv_mean": "mean_kv_token", "kv_max": "longest_kv_token",
        "kv_decode_mean": "decode_kv_token", "kv_decode_max": "longest_decode_kv_token", "gemm_time": "gemm",
        "elementwise_time": "elementwise", "allreduce_time": "allreduce", "total_flops": "flop", "total_bytes": "byte",
        "tp_comm": "payload", "heads_per_gpu": "head", "kv_heads_per_gpu": "kv_head", "vocab_per_gpu": "vocab",
        "attention_flops": "attention", "kv_read_time": "kv_read",
    }
)  # fmt: skip
"""What a constant that multiplies a feature is counted per."""
ALONE: Mapping[str, str] = MappingProxyType({STEP: "fixed", QUEUEING: "arrival", OUTPUT_TOKEN: "front_end"})
"""Constants that stand alone, by function."""
KINDS = ("memory", "compute", "kernels", "communication", "context", "batch", "overhead")
PROSE: Mapping[str, str] = MappingProxyType(
    {
        "memory": "memory traffic",
        "compute": "arithmetic",
        "kernels": "kernel times",
        "communication": "messages",
        "context": "cached context",
        "batch": "batch size",
        "overhead": "model size",
        "fixed": "a fixed cost",
    }
)
LONGEST_PER = 3
LONGEST_DOC = 115


def constant_names(bodies: Iterable[tuple[str, Expr]]) -> dict[str, str]:
    """Return a new name for each constant in ``bodies`` (function, expression), by what it multiplies first.

    The names are distinct identifiers and depend on the expressions' structure alone.
    """
    wanted: dict[str, str] = {}
    for function, body in bodies:
        _wish(body, ALONE.get(function, function.removeprefix("predict_").removesuffix("_time")), wanted)
    taken: set[str] = set()
    names: dict[str, str] = {}
    for old, wish in wanted.items():
        names[old] = unique(wish, taken)
        taken.add(names[old])
    return names


def unique(wish: str, taken: Iterable[str]) -> str:
    """Return ``wish``, with a number behind it where it is taken."""
    held = set(taken)
    number, name = 1, wish
    while name in held:
        number += 1
        name = f"{wish}_{number}"
    return name


def _wish(node: Node, alone: str, wanted: dict[str, str]) -> None:
    """Note what to call each constant in ``node``; ``alone`` is for one that multiplies nothing."""
    match node:
        case Constant(name):
            wanted.setdefault(name, alone)
        case Binary("mul" | "div"):
            factors = factors_of(node)
            others = [f for f in (*factors.above, *factors.below) if not isinstance(f, Constant | Number)]
            for factor in (*factors.above, *factors.below):
                _wish(factor, per(others, alone), wanted)
        case Binary("add" | "sub"):
            terms = [term.node for term in terms_of(node)]
            inner = "growth" if any(isinstance(term, Number) for term in terms) else alone
            for term in terms:
                _wish(term, inner, wanted)
        case Binary("pow", base, exponent):
            _wish(base, alone, wanted)
            _wish(exponent, "exponent", wanted)
        case Compare(_, left, right):
            for side, other in ((left, right), (right, left)):
                features = names_of(other, Feature)
                _wish(side, f"{features[0]}_limit" if features else "limit", wanted)
        case _:
            for part in parts(node):
                _wish(part, alone, wanted)


def per(others: Sequence[Expr], alone: str) -> str:
    """Return the name of a constant that multiplies or divides ``others``."""
    names = [name for factor in others if (name := _counted(factor))]
    grown = "growth_" if alone.startswith("growth") else ""
    if not names:
        inside = [feature for factor in others for feature in names_of(factor, Feature)]
        if not inside:
            return alone
        return f"{grown}per_{_noun(inside[0])}" if len(inside) == 1 else f"{grown}{subject(others)}_factor"
    return f"{grown}per_" + "_".join(dict.fromkeys(names[:LONGEST_PER]))


def _counted(factor: Expr) -> str:
    """Return what one factor counts, nothing for a larger expression."""
    match factor:
        case Feature(name):
            return _noun(name)
        case Unary("sqrt", Feature(name)):
            return f"root_{_noun(name)}"
        case Unary("log" | "log1p", Feature(name)):
            return f"log_{_noun(name)}"
    return ""


def _noun(feature: str) -> str:
    return NOUNS.get(feature, feature)


def kinds(nodes: Iterable[Node]) -> list[str]:
    """Return the categories of work in ``nodes``, in the order of KINDS."""
    found = {CATEGORY.get(leaf.name, "overhead") for n in nodes for leaf in leaves(n) if isinstance(leaf, Feature)}
    return [kind for kind in KINDS if kind in found]


def subject(nodes: Iterable[Node]) -> str:
    """Return one word for what ``nodes`` measure together."""
    members = list(nodes)
    found = kinds(members)
    if len(found) == 1:
        return found[0]
    if not found:
        return "offset"
    match members:
        case [Binary("max", _, _)]:
            return "slower"
        case [Binary("min", _, _)]:
            return "faster"
        case [Unary("sqrt", _)]:
            return "overlapped"
    on_device = {"memory", "compute", "kernels", "communication"}
    return "device" if set(found) <= on_device else "work" if set(found) & on_device else "host"


def describe(body: Expr) -> str:
    """Return one sentence on what a step-time formula consists of."""
    text = _phrase(body)
    if len(text) > LONGEST_DOC:
        found = kinds([body])
        text = _joined([PROSE[kind] for kind in found])
    return text[:1].upper() + text[1:] + "."


def _phrase(node: Expr) -> str:
    match node:
        case Choice(condition, _, _):
            features = names_of(condition, Feature)
            by = f", split by {features[0]}" if features else ""
            return f"{_plain([node])} in two regimes{by}"
        case Binary("max" | "min" as op, _, _):
            words = list(dict.fromkeys(_plain([argument]) for argument in arguments_of(node)))
            return f"the {'slower' if op == 'max' else 'faster'} of {_joined(words)}"
        case Unary("sqrt", operand) if isinstance(operand, Binary) and operand.op == "add":
            return f"{_plain([operand])} in part overlapped"
        case Binary("add" | "sub"):
            members = [term.node for term in terms_of(node)]
            plain = [m for m in members if not _is_compound(m)]
            compound = [_phrase(m) for m in members if _is_compound(m)]
            words = list(dict.fromkeys(compound)) + [PROSE[kind] for kind in kinds(plain)]
            if any(not names_of(m, Feature) for m in plain):
                words.append(PROSE["fixed"])
            return _joined(list(dict.fromkeys(words)), ", plus " if compound and len(words) > 1 else "")
    return _plain([node])


def _is_compound(node: Expr) -> bool:
    match node:
        case Choice() | Binary("max" | "min", _, _):
            return bool(names_of(node, Feature))
        case Unary("sqrt", Binary("add", _, _)):
            return bool(names_of(node, Feature))
    return False


def _plain(nodes: list[Expr]) -> str:
    return _joined([PROSE[kind] for kind in kinds(nodes)]) or PROSE["fixed"]


def _joined(words: list[str], first: str = "") -> str:
    """Return ``a, b and c``; ``first`` stands between the first word and the others if it is given."""
    if first:
        return words[0] + first + _joined(words[1:])
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + " and " + words[-1] if words else ""
