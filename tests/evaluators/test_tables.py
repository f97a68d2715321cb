"""Tables as spreadsheets of other systems write them: read, or refused by what is the matter."""

from __future__ import annotations

from pathlib import Path

import pytest

from evaluators.fields import UnreadableError, read_text
from evaluators.tables import read_table

COLUMNS = frozenset({"a", "b"})


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_every_kind_of_line_end_is_read(tmp_path: Path, end: str) -> None:
    path = tmp_path / "table.csv"
    path.write_text(end.join(("a,b", "1,2", "3,4", "")), newline="")
    assert [dict(row.values) for row in read_table(path, COLUMNS, frozenset())] == [
        {"a": "1", "b": "2"},
        {"a": "3", "b": "4"},
    ]


@pytest.mark.parametrize("separator", [";", "\t"])
def test_another_separator_is_named(tmp_path: Path, separator: str) -> None:
    path = tmp_path / "table.csv"
    path.write_text(separator.join("ab") + "\n")
    with pytest.raises(UnreadableError, match="header: got columns separated by") as caught:
        read_table(path, COLUMNS, frozenset())
    assert ascii(separator) in caught.value.error.got


def test_a_device_is_not_called_missing() -> None:
    with pytest.raises(UnreadableError, match="got a device or a pipe"):
        read_text(Path("/dev/null"), 10)
