"""The command line. Nothing heavy is imported before a command needs it: `--help` is instant."""

from __future__ import annotations

import errno
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evolve.errors import CommandError
from evolve.stopping import StopRequested, stoppable

if TYPE_CHECKING:
    from evolve.session import Finish
    from evolve.settings import Settings

OUTPUT_ERRORS = frozenset({errno.ENOSPC, errno.EIO, errno.EFBIG, errno.EDQUOT})
"""What writing to standard output fails with; files of our own answer for themselves."""

app = typer.Typer(
    name="evolve",
    help="Evolve the formula that predicts how long an LLM serving engine's step takes.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Runs = Annotated[Path, typer.Option("--runs", help="Folder that the run folders lie in.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on standard output.")]
SettingsFile = Annotated[Path | None, typer.Option("--settings", help="TOML file of settings; flags win over it.")]
MaxOperations = Annotated[int | None, typer.Option(help="Operations that a program may have. [30]")]
MaxConditionals = Annotated[int | None, typer.Option(help="Conditionals that a program may have. [3]")]
MaxConstants = Annotated[int | None, typer.Option(help="Constants that a program may have. [10]")]


@app.command()
def run(
    *,
    budget: Annotated[int | None, typer.Option(help="Programs to fit and score. [1000]")] = None,
    seed: Annotated[int | None, typer.Option(help="The same seed gives the same run. [0]")] = None,
    workers: Annotated[int | None, typer.Option(help="Processes; the result does not depend on it. [cores]")] = None,
    data: Annotated[str | None, typer.Option("--data", help="Dataset, as `data` takes it. [h100-vllm]")] = None,
    name: Annotated[str | None, typer.Option(help="Name of the run folder. [date and time]")] = None,
    runs: Annotated[str | None, typer.Option(help="Folder that the run folder is made in. [runs]")] = None,
    settings: SettingsFile = None,
    round_size: Annotated[int | None, typer.Option(help="Proposals made before any is evaluated. [16]")] = None,
    islands: Annotated[int | None, typer.Option(help="Populations that evolve apart. [4]")] = None,
    migration_interval: Annotated[int | None, typer.Option(help="Rounds between two migrations. [10]")] = None,
    migration_rate: Annotated[float | None, typer.Option(help="Share of an island that migrates. [0.1]")] = None,
    capacity: Annotated[int | None, typer.Option(help="Programs that the islands keep in all. [1000]")] = None,
    max_operations: MaxOperations = None,
    max_conditionals: MaxConditionals = None,
    max_constants: MaxConstants = None,
    as_json: Json = False,
) -> None:
    """Evolve programs on a dataset.

    No key and no GPU is needed. The result lies in a run folder; `show` reads it, Ctrl-C stops, `resume` goes on.
    """
    from evolve.progress import default_view
    from evolve.session import start

    asked = {"seed": seed, "budget": budget, "workers": workers, "dataset": data, "runs": runs}
    search = {
        "round_size": round_size,
        "islands": islands,
        "migration_interval": migration_interval,
        "migration_rate": migration_rate,
        "capacity": capacity,
    }
    loaded = _settings(
        settings, {"run": asked, "search": search, "caps": _caps(max_operations, max_conditionals, max_constants)}
    )
    _finish(start(loaded, name, default_view()), as_json)


@app.command()
def resume(
    run: Annotated[str, typer.Argument(help="Name of the run, or the path of its folder.")],
    workers: Annotated[int | None, typer.Option(min=1, max=1024, help="Processes. [as before]")] = None,
    runs: Runs = Path("runs"),
    as_json: Json = False,
) -> None:
    """Go on with a run that was stopped.

    It ends with the same result as if it had never been stopped.
    """
    from evolve.progress import default_view
    from evolve.run_folder import open_run
    from evolve.session import resume as go_on

    _finish(go_on(open_run(run, runs), workers, default_view()), as_json)


@app.command()
def evaluate(
    program: Annotated[Path, typer.Argument(help="A program file, such as a run's champion.py.")],
    *,
    data: Annotated[str | None, typer.Option("--data", help="Dataset, as `data` takes it. [h100-vllm]")] = None,
    fit: Annotated[bool, typer.Option("--fit", help="Fit the constants to the dataset first.")] = False,
    settings: SettingsFile = None,
    max_operations: MaxOperations = None,
    max_conditionals: MaxConditionals = None,
    max_constants: MaxConstants = None,
    as_json: Json = False,
) -> None:
    """Score a program file on a dataset."""
    from evolve import scoring_program as scoring
    from evolve.dataset import open_dataset, require_scored

    caps = _caps(max_operations, max_conditionals, max_constants)
    loaded = _settings(settings, {"run": {"dataset": data}, "caps": caps})
    parsed = scoring.read_program(program, loaded.caps.for_parser())
    experiments = open_dataset(loaded.run.dataset)
    require_scored(loaded.run.dataset, experiments)
    verdict = scoring.evaluate_program(parsed, experiments, fit=fit)
    if as_json:
        print(scoring.verdict_json(verdict, loaded.run.dataset))
    else:
        scoring.print_verdict(verdict)


@app.command()
def show(
    run: Annotated[str | None, typer.Argument(help="Name or path of a run. [the newest]")] = None,
    program: Annotated[str | None, typer.Argument(help="Id of one of its programs, or how it begins.")] = None,
    runs: Runs = Path("runs"),
    as_json: Json = False,
) -> None:
    """Show a run or one of its programs.

    A run can be shown while it goes on. Without arguments: the newest one.
    """
    from evolve import show as showing
    from evolve.run_folder import newest_run, open_run

    folder = open_run(run, runs) if run is not None else newest_run(runs)
    if program is not None:
        entry = showing.find_program(folder, program)
        if as_json:
            _print_json(showing.program_json(entry, folder.settings()))
        else:
            showing.print_program(entry, folder.settings())
    elif as_json:
        _print_json(showing.summary_of(folder)[0])
    else:
        showing.print_run(folder)


@app.command()
def data(
    source: Annotated[str, typer.Argument(help="Built-in name, folder of runs, or stages.csv.")] = "h100-vllm",
    as_json: Json = False,
) -> None:
    """List the experiments of a dataset."""
    from evolve import listings
    from evolve.dataset import open_dataset

    if as_json:
        _print_json(listings.data_rows(open_dataset(source)))
    else:
        listings.print_data(source)


@app.command()
def features(as_json: Json = False) -> None:
    """List what a program may read.

    Each feature with its unit, a typical value, its range and its meaning.
    """
    from evolve import listings

    if as_json:
        _print_json(listings.feature_rows())
    else:
        listings.print_features()


@app.command()
def doctor(as_json: Json = False) -> None:
    """Check what this machine has and lacks.

    A line per check, with what to do where something is missing. Exit code 1 where a run cannot work.
    """
    from dataclasses import asdict

    from evolve.doctor import examine, print_findings

    findings = examine()
    if as_json:
        _print_json([asdict(finding) for finding in findings])
    else:
        print_findings(findings)
    if any(finding.verdict == "fail" for finding in findings):
        raise typer.Exit(1)


def _caps(operations: int | None, conditionals: int | None, constants: int | None) -> dict[str, int | None]:
    return {"operations": operations, "conditionals": conditionals, "constants": constants}


def _settings(file: Path | None, flags: dict[str, dict[str, Any]]) -> Settings:
    from evolve.settings import load_settings

    return load_settings(file, flags)


def _finish(finish: Finish, as_json: bool) -> None:
    """Print what a run came to, and where it lies."""
    from evolve.outcome import outcome_text

    if as_json:
        _print_json(finish.summary)
        print(outcome_text(finish), file=sys.stderr)
    else:
        print(outcome_text(finish))
    if finish.exit_code:
        raise typer.Exit(finish.exit_code)


def _print_json(document: object) -> None:
    print(json.dumps(document, indent=2, allow_nan=False))


def main(arguments: list[str] | None = None) -> int:
    """Run a command and return its exit code: 0 done, 1 failed, 2 usage, 128 + n stopped by signal n."""
    try:
        with stoppable():
            code = _run(arguments)
        sys.stdout.flush()
    except CommandError as problem:
        print(f"error: {problem}", file=sys.stderr)
        return problem.exit_code
    except StopRequested as stop:
        print("stopped", file=sys.stderr)
        return stop.exit_code
    except BrokenPipeError:  # the reader, `head` perhaps, has seen enough
        _drop_output()
        return 0
    except OSError as problem:
        if problem.filename is not None or problem.errno not in OUTPUT_ERRORS:
            raise
        _drop_output()
        print(f"error: the output cannot be written: {problem.strerror}", file=sys.stderr)
        return 1
    return code


def _drop_output() -> None:
    """Send what is left in the buffer of standard output nowhere: it cannot be written, and must not fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run(arguments: list[str] | None) -> int:
    """Let typer run the command; it leaves by SystemExit, also where it refuses the arguments."""
    try:
        app(arguments)
    except SystemExit as leaving:
        return leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
    return 0
