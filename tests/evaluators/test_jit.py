"""Where compiled kernels are kept: outside the package, and never where somebody else could write them."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from evaluators import jit

ROOT = Path(jit.__file__).resolve().parents[1]


def folder_in(environment: dict[str, str]) -> Path:
    """Return the cache folder that a fresh process chooses; it must also be able to compile there."""
    program = (
        "from evaluators.jit import CACHE_FOLDER, kernel\n"
        "from evaluators.features import padded\n"
        "assert padded(5.0) == 8.0\n"
        "print(CACHE_FOLDER)"
    )
    kept = {name: value for name, value in os.environ.items() if name not in ("HOME", "XDG_CACHE_HOME")}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=kept | environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.strip())


def test_the_cache_lies_in_the_users_cache_folder(tmp_path: Path) -> None:
    assert folder_in({"XDG_CACHE_HOME": str(tmp_path)}).parent == tmp_path / "evolve-step-time"
    assert folder_in({"HOME": str(tmp_path)}).parent == tmp_path / ".cache" / "evolve-step-time"


def test_a_home_that_is_no_folder_leads_to_a_private_temporary_one(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder", encoding="utf-8")
    folder = folder_in({"HOME": str(blocked), "TMPDIR": str(tmp_path)})
    assert folder.is_relative_to(tmp_path)
    assert folder.parent.name.startswith("evolve-step-time")


def test_a_missing_home_is_no_reason_to_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", no_home)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert jit.cache_base().parent == tmp_path


def test_a_read_only_home_is_no_reason_to_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def read_only(*_: object, **__: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(tempfile, "TemporaryFile", read_only)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    base = jit.cache_base()
    assert base.parent == tmp_path
    assert base.name.startswith("evolve-step-time-")


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX permissions")
@pytest.mark.parametrize("trap", ["open to all", "a link", "a file"])
def test_a_temporary_folder_that_others_could_have_filled_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trap: str
) -> None:
    """Cached kernels are machine code: whoever can write the folder runs code as this user."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    known = tmp_path / f"{jit.NAME}-{os.getuid()}"
    if trap == "open to all":
        known.mkdir()
        known.chmod(0o777)
    elif trap == "a link":
        known.symlink_to(tmp_path)
    else:
        known.write_text("", encoding="utf-8")
    base = jit._temporary_base()
    assert base != known
    assert base.is_dir()
    assert stat.S_IMODE(base.stat().st_mode) == 0o700


def test_the_cache_is_named_by_every_source_that_defines_a_kernel() -> None:
    names = {path.name for path in jit.kernel_files()}
    package = Path(jit.__file__).parent
    users = {path.name for path in package.glob("*.py") if "@kernel" in path.read_text(encoding="utf-8")}
    assert users | {"physics.py", "jit.py"} <= names


def test_a_change_in_any_kernel_source_changes_the_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    import numba

    before = jit.use_cache_folder()
    monkeypatch.setattr(jit, "kernel_files", lambda: (Path(__file__),))
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")
    assert jit.use_cache_folder() != before
