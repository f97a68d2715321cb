import pytest

from tests.translate.program_samples import OVERLAP, accepted, step
from translate.complexity import measure


@pytest.mark.parametrize(
    ("body", "operations", "conditionals"),
    [
        ("return 1", 0, 0),
        ("return -1", 0, 0),
        ('return -b["kv_read"]', 1, 0),
        ("return 1 + 2 * 3 ** 4", 3, 0),
        ("return max(1, 2, 3, 4)", 3, 0),
        ("return math.sqrt(abs(2))", 2, 0),
        ("x = 1;;x += 1;;return x", 1, 0),
        ("return 1 if 1 < 2 else 3", 1, 1),
        ("return 1 if 1 < 2 and not 2 < 3 else 3", 4, 1),
        ("return 1 if 1 < 2 < 3 else 3", 3, 1),
        ("if 1 < 2:;;    return 1;;elif 1 < 2 or 1 > 2:;;    return 2;;return 3", 4, 2),
    ],
)
def test_counts_are_those_of_a_reader(body, operations, conditionals):
    size = measure(accepted(step(body)))
    assert (size.operations, size.conditionals) == (operations, conditionals)


def test_counts_are_summed_over_functions_and_constants_are_those_declared():
    other = 'def predict_queueing_time(r):\n    return launch * r["waiting"]\n'
    size = measure(accepted(OVERLAP + other))
    assert size.operations == 6 + 1
    assert size.constants == 3
    assert size.features == {"weight_load", "kv_read", "prefill_gemm", "decode_gemm", "waiting"}
