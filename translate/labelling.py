"""An order of operations and constants that depends on what they do, never on their names or on the order of the text.

Colour refinement: a constant is told from another by all that is computed from it. Constants that no refinement tells
apart are interchangeable, so one of them is singled out and the rest refined again.
Source: Weisfeiler and Leman (1968); individualisation as in McKay, Practical graph isomorphism (1981).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from hashlib import blake2b

from translate.graph import Operation
from translate.simplify import COMMUTATIVE

Labels = list[str]


def label(operations: Sequence[Operation], roots: Mapping[str, int], values: Mapping[str, float]) -> Labels:
    """Return one label per operation; equal programs get equal labels, different constants different ones.

    Args: roots: the index of the result of each function. values: of the constants; they only decide which of several
          interchangeable ones comes first.
    """
    colours = {o.name: "" for o in operations if o.op == "constant"}
    while True:
        labels, colours = _refine(operations, roots, colours)
        classes = Counter(colours.values())
        tied = sorted(colour for colour, count in classes.items() if count > 1)
        if not tied:
            return labels
        chosen = min((name for name, colour in colours.items() if colour == tied[0]), key=lambda name: values[name])
        colours = {**colours, chosen: _hash("chosen", colours[chosen])}


def _refine(
    operations: Sequence[Operation], roots: Mapping[str, int], colours: dict[str, str]
) -> tuple[Labels, dict[str, str]]:
    while True:
        labels = _upwards(operations, colours)
        contexts = _downwards(operations, roots, labels)
        finer = {o.name: _hash(contexts[i]) for i, o in enumerate(operations) if o.op == "constant"}
        if len(set(finer.values())) <= len(set(colours.values())):
            return labels, colours
        colours = finer


def _upwards(operations: Sequence[Operation], colours: Mapping[str, str]) -> Labels:
    """Return a label of each operation from what it is computed from."""
    labels: Labels = []
    for operation in operations:
        inputs = [labels[i] for i in operation.inputs]
        if operation.op in COMMUTATIVE:
            inputs.sort()
        own = colours[operation.name] if operation.op == "constant" else operation.name
        labels.append(_hash(operation.op, operation.value.hex(), own, *inputs))
    return labels


def _downwards(operations: Sequence[Operation], roots: Mapping[str, int], labels: Labels) -> Labels:
    """Return a label of each operation from itself and from all that is computed from it."""
    above: list[list[str]] = [[] for _ in operations]
    for name, root in roots.items():
        above[root].append(name)
    contexts = [""] * len(operations)
    for index in range(len(operations) - 1, -1, -1):
        contexts[index] = _hash(labels[index], *sorted(above[index]))
        operation = operations[index]
        for position, source in enumerate(operation.inputs):
            place = "any" if operation.op in COMMUTATIVE else str(position)
            above[source].append(_hash(contexts[index], place))
    return contexts


def _hash(*parts: str) -> str:
    return blake2b("\0".join(parts).encode(), digest_size=12).hexdigest()
