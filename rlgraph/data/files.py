"""Rows from files, folders and the Hugging Face hub.

JSON lines, JSON and CSV are read here, so that a broken line has a number and
values stay as they were written ("007" is not 7). Parquet files, folders and
hub data sets are read by the ``datasets`` library, which runs no code of theirs.
"""

import csv
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlgraph.errors import DataError


@dataclass(frozen=True)
class Found:
    """A row as it was found: its columns, or why it has none."""

    where: str
    """``line 3`` (from 1) of a text file, ``row 2`` (from 0) of anything else."""
    columns: dict[str, Any] | None
    fault: str = ""


_FORMATS = (".jsonl", ".ndjson", ".json", ".csv", ".parquet")


def read_rows(source: str, split: str) -> Iterator[Found]:
    """All rows of a file, a folder, or a hub data set (``name`` or ``name:config``).

    Raises:
        DataError: it is not there, or it cannot be read at all.
    """
    path = Path(source).expanduser()
    if path.is_dir():
        return _read_folder(path, split)
    if path.is_file():
        return _read_file(path)
    if path.suffix.lower() in _FORMATS or source.startswith((".", "/", "~")):
        raise DataError(f"{source}: no such file or folder (seen from {Path.cwd()})")
    return _read_hub(source, split)


def _read_file(path: Path) -> Iterator[Found]:
    match path.suffix.lower():
        case ".jsonl" | ".ndjson":
            return _read_json_lines(path)
        case ".json":
            return _read_json(path)
        case ".csv":
            return _read_csv(path)
        case ".parquet":
            return _read_parquet(path)
    raise DataError(f"{path}: its name must end in one of {', '.join(_FORMATS)}")


def _object(where: str, entry: Any) -> Found:
    if isinstance(entry, dict):
        return Found(where, entry)
    return Found(where, None, f"it is a {type(entry).__name__}, not an object with columns")


def _read_json_lines(path: Path) -> Iterator[Found]:
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            where = f"line {number}"
            try:
                yield _object(where, json.loads(line))
            except ValueError as error:
                yield Found(where, None, f"it is not JSON ({error})")


def _read_json(path: Path) -> Iterator[Found]:
    try:
        entries = json.loads(path.read_bytes())
    except ValueError as error:
        raise DataError(
            f"{path} is not JSON ({error}); if each line is an object, name it .jsonl"
        ) from None
    if not isinstance(entries, list):
        raise DataError(f"{path} holds a {type(entries).__name__}; it must be a list of objects")
    for number, entry in enumerate(entries):
        yield _object(f"row {number}", entry)


def _read_csv(path: Path) -> Iterator[Found]:
    with path.open(encoding="utf-8-sig", newline="") as text:
        reader = csv.DictReader(text, strict=True)
        try:
            for row in reader:
                # A quoted cell may hold line breaks: this is the row's last line.
                where = f"line {reader.line_num}"
                named = len(reader.fieldnames or ())
                # Cells too many are under the key None, cells too few are None.
                if None in row or None in row.values():
                    yield Found(where, None, f"it does not have {named} cells as the header has")
                else:
                    yield Found(where, row)
        except (csv.Error, UnicodeDecodeError) as error:
            raise DataError(f"{path}, after line {reader.line_num}: not CSV ({error})") from None


def _read_parquet(path: Path) -> Iterator[Found]:
    from datasets import Dataset

    try:
        rows = Dataset.from_parquet(str(path))
    except Exception as error:
        raise DataError(f"{path} cannot be read as Parquet: {_first_line(error)}") from error
    return _number(rows)


def _read_folder(path: Path, split: str) -> Iterator[Found]:
    from datasets import DatasetDict, load_dataset, load_from_disk

    saved = any((path / name).is_file() for name in ("dataset_dict.json", "state.json"))
    try:
        rows = load_from_disk(str(path)) if saved else load_dataset(str(path), split=split)
    except Exception as error:
        raise DataError(
            f"split '{split}' of the folder {path} cannot be loaded: {_first_line(error)}"
        ) from error
    if isinstance(rows, DatasetDict):
        if split not in rows:
            raise DataError(f"{path} has no split '{split}'; it has {', '.join(rows)}")
        rows = rows[split]
    return _number(rows)


def _read_hub(source: str, split: str) -> Iterator[Found]:
    from datasets import load_dataset

    name, _, config = source.partition(":")
    try:
        rows = load_dataset(name, config or None, split=split)
    except Exception as error:
        raise DataError(
            f"'{source}' is no file or folder here, and split '{split}' of a data set of that name "
            f"cannot be loaded from the Hugging Face hub: {_first_line(error)}"
        ) from error
    return _number(rows)


def _number(rows: Any) -> Iterator[Found]:
    for number, row in enumerate(rows):
        assert isinstance(row, Mapping)
        yield Found(f"row {number}", dict(row))


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
