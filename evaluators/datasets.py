"""One door to every source of experiments: a built-in benchmark, a folder of runs, one run, a stage table."""

from __future__ import annotations

from pathlib import Path

from evaluators.benchmark import builtin, builtin_names
from evaluators.catalogue import Catalogue, load_catalogue
from evaluators.experiment import DataError, Experiment
from evaluators.fields import did_you_mean
from evaluators.inference_perf import read_folder
from evaluators.stage_csv import read_stages

RUN_FILE = "exp-config.yaml"
CATALOGUE_FILE = "catalogue.toml"
MAX_RUNS = 10_000


def load_dataset(source: str, catalogue: Catalogue | None = None) -> tuple[Experiment, ...] | DataError:
    """Return the experiments of a source, all of them or the first error.

    ``source`` is the name of a built-in benchmark (it wins over a path of the same name), an inference-perf run folder,
    a folder of such runs, a stage table, or a folder with a stages.csv. A catalogue.toml in the folder, or beside the
    table, adds models and GPUs to the project's catalogue.
    """
    if source in builtin_names():
        return builtin(source)
    path = Path(source)
    try:
        if catalogue is None:
            beside = _catalogue_beside(path)
            if isinstance(beside, DataError):
                return beside
            catalogue = beside
        if path.is_dir():
            return _read_directory(path, catalogue)
        if path.is_file():
            return read_stages(path, catalogue)
    except (OSError, ValueError) as problem:  # a name too long, a NUL in it, a folder that may not be listed
        return DataError(ascii(source)[:200], "source", type(problem).__name__, "a path that can be read")
    want = f"a file, a folder, or one of {', '.join(builtin_names())}{did_you_mean(source, list(builtin_names()))}"
    return DataError(source, "source", "nothing there", want)


def _catalogue_beside(path: Path) -> Catalogue | DataError | None:
    """Return the project's catalogue with the user's additions, None where there are none."""
    extra = (path if path.is_dir() else path.parent) / CATALOGUE_FILE
    return load_catalogue([extra]) if extra.is_file() else None


def _read_directory(folder: Path, catalogue: Catalogue | None) -> tuple[Experiment, ...] | DataError:
    if (folder / RUN_FILE).exists():
        one = read_folder(folder, catalogue)
        return one if isinstance(one, DataError) else (one,)
    if (folder / "stages.csv").exists():
        return read_stages(folder / "stages.csv", catalogue)
    runs = sorted(entry for entry in folder.iterdir() if entry.is_dir() and (entry / RUN_FILE).exists())
    if not 1 <= len(runs) <= MAX_RUNS:
        want = f"1 to {MAX_RUNS} folders with an {RUN_FILE}, or a stages.csv"
        return DataError(str(folder), "folder", f"{len(runs)} runs", want)
    experiments = []
    for run in runs:
        experiment = read_folder(run, catalogue)
        if isinstance(experiment, DataError):
            return experiment
        experiments.append(experiment)
    return tuple(experiments)
