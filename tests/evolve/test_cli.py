"""The command line: exit codes, streams, messages; what it prints is what the parts computed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from evaluators.features import FEATURES, REQUEST_FEATURES
from evolve.cli import main
from evolve.doctor import Finding, examine, print_findings
from evolve.run_folder import RunFolder, create_run, writing
from evolve.settings import RunSettings, Settings
from tests.evolve.tiny_runs import REPOSITORY, accepted, command, duplicate, rejected, tiny_dataset

HEAVY = {"numba", "scipy", "pandas", "openevolve", "litellm", "numpy", "deap"}


@pytest.fixture
def run_folder(tmp_path: Path) -> RunFolder:
    """Return a run that holds three programs of two rounds."""
    folder = create_run(tmp_path / "runs", "one", Settings(run=RunSettings(seed=5, budget=4)))
    with writing(folder) as ledger:
        ledger.append_event("started", {})
        ledger.append_round(0, [accepted(0, 0.3), accepted(1, 0.1, operations=3), rejected(2)])
        ledger.append_round(1, [duplicate(3), accepted(0x1F, 0.2)])
        ledger.append_event("finished", {"wall_s": 3.5})
    return folder


def failure(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """Run a command that must fail with one message on standard error and nothing on standard output."""
    assert main([str(argument) for argument in arguments]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("error: ")
    assert "Traceback" not in printed.err
    return printed.err


@pytest.mark.parametrize("arguments", [["--help"], ["run", "--help"], ["show", "--help"]])
def test_help_imports_nothing_heavy(arguments: list[str]) -> None:
    script = (
        "import sys; from evolve.cli import main; code = main(sys.argv[1:]); "
        "print(code, *(name for name in sys.modules if '.' not in name), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments], cwd=REPOSITORY, capture_output=True, text=True, check=True
    )
    code, *modules = done.stderr.split()
    assert code == "0"
    assert "Usage: " in done.stdout
    assert not HEAVY & set(modules)


@pytest.mark.parametrize(
    "arguments", [["rnu"], ["run", "--budgt", "3"], ["run", "--budget", "x"], ["run", "--budget", "0"], ["resume"], []]
)
def test_a_command_that_makes_no_sense_exits_with_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_a_settings_file_with_an_unknown_key_exits_with_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mine.toml"
    path.write_text("[search]\nislandz = 2\n")
    assert main(["run", "--settings", str(path)]) == 2
    assert capsys.readouterr().err == f"error: {path}: [search] has no key `islandz`; did you mean `islands`?\n"


def test_show_prints_the_newest_run_with_its_frontier_and_champion(
    run_folder: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["show", "--runs", str(run_folder.path.parent)]) == 0
    text = capsys.readouterr().out
    for piece in (
        "one: finished",
        "seed 5",
        "4 of 4 in 4 s",
        "duplicate 1, fit 1",
        f"champion {1:016x}",
        "predict_step",
    ):
        assert piece in text


def test_show_json_is_the_summary(run_folder: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "one", "--json", "--runs", str(run_folder.path.parent)]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert (summary["status"], summary["evaluations"], summary["wall_s"]) == ("finished", 4, 3.5)
    assert summary["champion"]["id"] == f"{1:016x}"


def test_show_finds_a_program_by_the_beginning_of_its_id(
    run_folder: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = ["--runs", str(run_folder.path.parent)]
    assert main(["show", "one", f"{0x1F:016x}", "--json", *runs]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["number"], found["error"]["e2e"]) == (0x1F, 0.2)
    assert "begins the ids of 3 programs" in failure(capsys, "show", "one", "0000", *runs)
    assert "no accepted program" in failure(capsys, "show", "one", "ff", *runs)


def test_show_says_that_a_run_was_killed(run_folder: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    with writing(run_folder) as ledger:
        ledger.append_event("resumed", {})
    assert main(["show", str(run_folder.path)]) == 0
    assert "one: killed" in capsys.readouterr().out


def test_data_lists_every_stage_and_flags_what_is_not_scored(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data"]) == 0
    text = capsys.readouterr().out
    assert "16 experiments, 24 stages; 4 experiments are flagged" in text
    assert text.count("overloaded") == 4
    assert main(["data", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert len(rows) == 24
    assert rows[0]["observed"]["tpot_us"] > 0
    assert "did you mean `h100-vllm`?" in failure(capsys, "data", "h100-vlm")


def test_features_lists_the_whole_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["features", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert {row["name"] for row in rows} == {feature.name for feature in (*FEATURES, *REQUEST_FEATURES)}
    assert all(row["typical"] is None or row["low"] <= row["typical"] <= row["high"] for row in rows)
    assert main(["features"]) == 0
    assert "gemm_time" in capsys.readouterr().out


def test_evaluate_scores_a_program_and_fitting_makes_it_better(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program, data = tmp_path / "mine.py", tiny_dataset(tmp_path)
    body = 'return b["gemm_time"] + b["kv_read_time"] + per_gpu * b["tp"]'
    program.write_text(f'CONSTANTS = {{"per_gpu": 50.0}}\n\ndef predict_step_time(b):\n    {body}\n')
    documents = []
    for extra in ([], ["--fit"]):
        assert main(["evaluate", str(program), "--data", str(data), "--json", *extra]) == 0
        documents.append(json.loads(capsys.readouterr().out))
    as_is, fitted = documents
    assert as_is["constant_values"] == {"per_gpu": 50.0}
    assert fitted["error"]["e2e"] < as_is["error"]["e2e"]
    assert len(as_is["per_experiment"]) == 3
    assert main(["evaluate", str(program), "--data", str(data)]) == 0
    assert "3 operations, 0 conditionals, 1 constants, 3 features" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\0abc", "TR001 line 1:1"),
        (b"\xff\xfeabc", "byte 0 that is not UTF-8"),
        (b" " * 70_000, "more than 65536 bytes"),
        (b"", "TR017"),
        (b"import os\n", "TR011 line 1:1"),
    ],
)
def test_evaluate_refuses_a_file_that_is_no_program(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes, message: str
) -> None:
    path = tmp_path / "mine.py"
    path.write_bytes(content)
    text = failure(capsys, "evaluate", path)
    assert str(path) in text
    assert message in text


def test_evaluate_refuses_a_folder_and_a_missing_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "got a folder; want a program file" in failure(capsys, "evaluate", tmp_path)
    assert "there is no such file" in failure(capsys, "evaluate", tmp_path / "nothing.py")


def test_a_refusal_shows_the_line_with_a_caret_under_the_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mine.py"
    path.write_text('def predict_step_time(b):\n\treturn 2.0 * b["gem_time"]\n')
    *_, line, caret = failure(capsys, "evaluate", path).splitlines()
    assert line.endswith('return 2.0 * b["gem_time"]')
    assert line[caret.index("^") :].startswith('"gem_time"') or line[caret.index("^") :].startswith('b["gem_time"]')


def test_the_caps_of_evaluate_can_be_raised(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, data = tmp_path / "mine.py", tiny_dataset(tmp_path)
    path.write_text(f"def predict_step_time(b):\n    return 7000.0{' + 1.0' * 31}\n")
    assert "The caps can be raised" in failure(capsys, "evaluate", path, "--data", data)
    assert main(["evaluate", str(path), "--data", str(data), "--max-operations", "31"]) == 0


def test_doctor_finds_this_machine_fit_and_prints_a_line_per_check(capsys: pytest.CaptureFixture[str]) -> None:
    findings = examine()
    assert [finding for finding in findings if finding.verdict == "fail"] == []
    assert len({finding.what for finding in findings}) == len(findings) == 10
    print_findings([Finding("warn", "Go", "not found", "install it"), Finding("ok", "Python", "3.11")])
    lines = capsys.readouterr().out.splitlines()
    assert [text.split()[0] for text in lines] == ["warn", "->", "ok"]


def test_json_of_a_run_is_alone_on_standard_output(tmp_path: Path) -> None:
    data = tiny_dataset(tmp_path)
    done = command("run", "--budget", 2, "--workers", 1, "--data", data, "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["evaluations"] == 2
    assert "round 0: 2/2 evaluations" in done.stderr
    champion = next((tmp_path / "runs").glob("*/champion.py"))
    again = command("evaluate", champion, "--data", data, "--json", cwd=tmp_path)
    for key in ("error", "median", "worst", "per_experiment", "source"):
        assert json.loads(again.stdout)[key] == json.loads(done.stdout)["champion"][key]


def test_a_reader_that_leaves_early_gets_no_complaint() -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "evolve", "features"], cwd=REPOSITORY,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == ""
