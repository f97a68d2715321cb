from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evaluators.experiment import DataError, Experiment
from evaluators.stage_csv import read_stages

HEADER = (
    "experiment,stage,workload,model,gpu,tp,precision,max_num_batched_tokens,cpu_offload,kv_blocks_total,rate_rps,"
    "prompt_tokens,output_tokens,e2e_ms,ttft_ms,tpot_ms,e2e_p90,e2e_p99,ttft_p90,ttft_p99"
)
FIRST = (
    "60-a,0,general-lite,Llama-3.1-70B-Instruct,H100,4,FP16,8192,,30251.0,2.5,"
    "575,248,4207.896,51.955,16.826,4286,4567,58,88"
)
SECOND = FIRST.replace("60-a,0", "60-a,1").replace(",2.5,", ",6.0,")


def table(*rows: str, header: str = HEADER) -> str:
    return "\n".join((header, *rows)) + "\n"


def with_value(column: str, value: str, row: str = FIRST) -> str:
    cells = row.split(",")
    cells[HEADER.split(",").index(column)] = value
    return ",".join(cells)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "stages.csv"


def read(file: Path, text: str) -> tuple[Experiment, ...]:
    file.write_text(text, encoding="utf-8", newline="")
    experiments = read_stages(file)
    assert not isinstance(experiments, DataError), str(experiments)
    return experiments


def refused(file: Path, text: str, *words: str) -> None:
    file.write_text(text, encoding="utf-8", newline="")
    error = read_stages(file)
    assert isinstance(error, DataError)
    assert error.path in {str(file), FIRST.split(",", 1)[0]}
    for word in words:
        assert word in str(error), str(error)


def test_the_rows_of_an_experiment_become_its_stages_in_our_units(file):
    (experiment,) = read(file, table(FIRST, SECOND))
    first, second = experiment.workload.stages
    assert (experiment.name, experiment.model.name, experiment.tp) == ("60-a", "Llama-3.1-70B", 4)
    assert (experiment.engine.max_num_batched_tokens, experiment.engine.kv_blocks) == (8192, 30251)
    assert (first.rate_per_s, second.rate_per_s, first.duration_s) == (2.5, 6.0, 600.0)
    assert first.observed is not None
    assert (first.observed.requests, first.observed.tpot_us) == (1500, pytest.approx(16826))
    assert (first.observed.e2e.mean_us, first.observed.ttft.p99_us) == (pytest.approx(4207896), 88000)
    assert first.observed.e2e.p50_us is None
    assert experiment.workload.prompt_tokens_std == pytest.approx(5.75)
    assert experiment.workload.shared_prefix_tokens == 105  # 100 of 547 configured tokens, the real prompts have 575


def test_the_mixed_set_has_twelve_experiments_and_nineteen_stages(data_folder):
    experiments = read_stages(data_folder / "vllm-h100-mixed" / "stages.csv")
    assert not isinstance(experiments, DataError)
    assert (len(experiments), sum(len(e.workload.stages) for e in experiments)) == (12, 19)
    assert {e.model.weight_bytes_per_param for e in experiments if "Scout" in e.model.name} == {1.0}
    assert not any(e.overloaded for e in experiments)
    assert {e.workload.stages[0].duration_s for e in experiments if "reasoning" in e.name} == {1200.0}


def test_only_rows_48_and_67_of_the_mixed_set_thrash(data_folder):
    experiments = read_stages(data_folder / "vllm-h100-mixed" / "stages.csv")
    assert not isinstance(experiments, DataError)
    assert {e.name.split("-")[0] for e in experiments if e.thrashing} == {"48", "67"}


@pytest.mark.parametrize(
    "spoil", [lambda t: "\ufeff" + t, lambda t: t.replace("\n", "\r\n"), lambda t: t.replace("\n", "\n\n"), str.strip]
)
def test_byte_order_mark_line_ends_and_blank_lines_change_nothing(file, spoil):
    text = table(FIRST, SECOND)
    assert read(file, spoil(text)) == read(file, text)


def test_the_order_of_the_columns_changes_nothing(file):
    rows = [line.split(",")[::-1] for line in table(FIRST, SECOND).splitlines()]
    assert read(file, "\n".join(",".join(row) for row in rows)) == read(file, table(FIRST, SECOND))


def test_a_missing_capacity_is_looked_up_or_estimated(file):
    (measured,) = read(file, table(with_value("kv_blocks_total", "")))
    (estimated,) = read(file, table(with_value("gpu", "H200", with_value("kv_blocks_total", ""))))
    assert measured.engine.kv_blocks == 30425
    assert estimated.engine.kv_blocks > 2 * measured.engine.kv_blocks


@pytest.mark.parametrize("blocks", ["", "40"])
def test_a_deployment_without_room_for_one_request_is_refused(file, blocks):
    file.write_text(table(with_value("tp", "1", with_value("kv_blocks_total", blocks))), encoding="utf-8")
    error = read_stages(file)
    assert isinstance(error, DataError)
    assert (error.path, error.field) == ("60-a", "KV cache")
    assert "Llama-3.1-70B on 1 x H100-SXM-80GB" in error.got
    assert "a request of 823 tokens" in error.want


def test_offload_and_columns_that_nothing_reads_are_noted(file):
    (experiment,) = read(file, table(with_value("cpu_offload", "True") + ",7", header=HEADER + ",replica"))
    assert "KV cache offloaded to the CPU" in experiment.notes
    assert "columns not used: replica" in experiment.notes


def test_an_unknown_workload_needs_a_duration(file):
    refused(file, table(with_value("workload", "chat")), "workload", "general-lite", "duration_s")
    (experiment,) = read(file, table(with_value("workload", "chat") + ",300", header=HEADER + ",duration_s"))
    stage = experiment.workload.stages[0]
    assert (stage.duration_s, experiment.workload.shared_prefix_tokens) == (300.0, 0)
    assert stage.observed is not None
    assert stage.observed.requests == 750


def test_optional_columns_override_the_assumptions(file):
    header = HEADER + ",prompt_tokens_std,shared_prefix_tokens,requests,succeeded,max_num_seqs,e2e_p50"
    (experiment,) = read(file, table(FIRST + ",9.5,64,1000,900,256,4200", header=header))
    load = experiment.workload
    assert (load.prompt_tokens_std, load.shared_prefix_tokens, experiment.engine.max_num_seqs) == (9.5, 64, 256)
    assert load.stages[0].observed is not None
    assert load.stages[0].observed.e2e.p50_us == 4.2e6
    assert experiment.overloaded


def test_optional_columns_state_the_cache_and_how_often_prompts_repeat(file):
    header = HEADER + ",enable_prefix_caching,gpu_memory_utilization,prompts,groups"
    row = with_value("kv_blocks_total", "")
    (off,) = read(file, table(row + ",False,0.8,5000,50", header=header))
    (on,) = read(file, table(row + ",True,0.9,,", header=header))
    assert (off.engine.prefix_caching, off.workload.prompts, off.workload.groups) == (False, 5000, 50)
    assert (on.engine.prefix_caching, on.workload.prompts, on.workload.groups) == (True, 100, 10)
    assert off.engine.kv_blocks < on.engine.kv_blocks
    assert not off.thrashing
    refused(file, table(row + ",True,0.9,5,6", header=header), "groups", "from 1 to 5")


def test_requests_that_were_served_were_not_too_long_unless_the_table_says_so(file):
    long = with_value("prompt_tokens", "6000")
    (experiment,) = read(file, table(long))
    assert experiment.engine.max_model_len >= 6000 + 248
    refused(file, table(long + ",4096", header=HEADER + ",max_model_len"), "max_model_len", "4096")


@pytest.mark.parametrize("column", HEADER.split(","))
def test_a_missing_column_is_refused_by_name(file, column):
    at = HEADER.split(",").index(column)
    lines = [",".join(cell for n, cell in enumerate(line.split(",")) if n != at) for line in (HEADER, FIRST)]
    refused(file, "\n".join(lines), "header", f"no column `{column}`")


NUMBERS = sorted(set(HEADER.split(",")) - {"experiment", "workload", "model", "gpu", "precision", "cpu_offload"})


@pytest.mark.parametrize("column", NUMBERS)
@pytest.mark.parametrize("value", ["fast", "-1", "nan", "inf", "-inf", "1e400", "0x10", "1;2"])
def test_a_value_that_is_no_number_or_out_of_range_is_refused_with_line_and_column(file, column, value):
    refused(file, table(with_value(column, value)), f"line 2: {column}", value)


@pytest.mark.parametrize("column", sorted(set(HEADER.split(",")) - {"cpu_offload", "kv_blocks_total"}))
def test_an_empty_value_is_refused_with_line_and_column(file, column):
    refused(file, table(with_value(column, " ")), f"line 2: {column}", "got nothing")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "an empty file"),
        ("# only a comment\n", "an empty file"),
        (HEADER + "\n", "got 0; want 1 to"),
        (table(FIRST, FIRST), "line 3: stage: got `'0'`; want 1"),
        (table(SECOND), "line 2: stage: got `'1'`; want 0"),
        (table(FIRST, with_value("model", "Yi-34B", SECOND)), "as in stage 0"),
        (table(FIRST, with_value("tp", "2", SECOND)), "line 3: tp"),
        (table(FIRST + ",1"), "got 21 columns; want the 20"),
        (table(FIRST[:-10]), "columns; want the 20"),
        (table(FIRST + ",1", header=HEADER + ",tp"), "`tp` twice"),
        (table(FIRST, header=HEADER.replace("tpot_ms", "tpot_s")), "no column `tpot_ms`, but `tpot_s`"),
        (table(FIRST + ",5", header=HEADER + ",duration_ss"), "`duration_s`"),
        (table(with_value("model", "Llama-3.1-70")), "did you mean `Llama-3.1-70B`"),
        (table(with_value("gpu", "H100-SXM-80")), "did you mean `H100-SXM-80GB`"),
        (table(with_value("precision", "FP3")), "FP16"),
        (table(with_value("cpu_offload", "maybe")), "true or false"),
        (table(with_value("ttft_ms", "5000")), "less than the E2E"),
        (table(with_value("tpot_ms", "8.4")), "want (e2e_ms - ttft_ms) / (output_tokens - 1) = 16.83"),
        (table(with_value("e2e_p99", "4000")), "at least the quantile before it"),
        (table(with_value("output_tokens", "1")), "output_tokens"),
        (table(with_value("tp", "1.5")), "a whole number"),
        (table(with_value("max_num_batched_tokens", "127")), "want at least max_num_seqs = 128"),
        (table('"' + FIRST), "unexpected end of data"),
        (table("\0" + FIRST), "NUL"),
    ],
)
def test_a_wrong_table_is_refused_with_a_reason(file, text, complaint):
    refused(file, text, complaint)


def test_one_wrong_row_leaves_nothing_loaded(file):
    refused(file, table(FIRST, SECOND, with_value("experiment", "b", with_value("tp", "no"))), "line 4: tp")


@settings(
    derandomize=True, max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(at=st.floats(0, 1), junk=st.text(max_size=4))
def test_a_table_damaged_anywhere_never_raises(file, at, junk):
    text = table(FIRST, SECOND)
    place = int(at * len(text))
    file.write_text(text[:place] + junk + text[place + 1 :], encoding="utf-8", errors="replace", newline="")
    assert isinstance(read_stages(file), tuple | DataError)
