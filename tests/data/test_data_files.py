import json
from collections.abc import Callable
from pathlib import Path

import datasets
import pytest

from rlgraph import DataError
from rlgraph.data.files import Found, read_rows

ROWS = [{"prompt": "1+1", "answer": "2"}, {"prompt": "2+2", "answer": "004"}]


def columns_of(source: str, split: str = "train") -> list[dict[str, object] | None]:
    return [found.columns for found in read_rows(source, split)]


def test_every_format_gives_the_same_rows(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("\n\n".join(map(json.dumps, ROWS)))
    (tmp_path / "a.json").write_text(json.dumps(ROWS))
    (tmp_path / "a.csv").write_text("prompt,answer\n1+1,2\n2+2,004\n")
    datasets.Dataset.from_list(ROWS).to_parquet(str(tmp_path / "a.parquet"))
    for suffix in ("jsonl", "json", "csv", "parquet"):
        assert columns_of(f"{tmp_path}/a.{suffix}") == ROWS, suffix


def test_text_of_a_csv_file_stays_text(lines: Callable[..., str]) -> None:
    source = lines("prompt,answer", "NA,1.0", '"a\nb",', name="a.csv")
    assert columns_of(source) == [
        {"prompt": "NA", "answer": "1.0"},
        {"prompt": "a\nb", "answer": ""},
    ]


def test_a_folder_is_read_by_split(tmp_path: Path) -> None:
    for split, row in zip(("train", "test"), ROWS, strict=True):
        (tmp_path / f"{split}.jsonl").write_text(json.dumps(row) + "\n")
    assert columns_of(str(tmp_path), "test") == ROWS[1:]
    with pytest.raises(DataError, match="split 'validation'"):
        read_rows(str(tmp_path), "validation")


def test_a_saved_data_set_is_read(tmp_path: Path) -> None:
    rows = datasets.Dataset.from_list(ROWS)
    rows.save_to_disk(str(tmp_path / "one"))
    assert columns_of(f"{tmp_path}/one") == ROWS
    datasets.DatasetDict({"train": rows}).save_to_disk(str(tmp_path / "many"))
    assert columns_of(f"{tmp_path}/many") == ROWS
    with pytest.raises(DataError, match="no split 'test'; it has train"):
        read_rows(f"{tmp_path}/many", "test")


def test_broken_lines_have_a_number_and_a_reason(lines: Callable[..., str]) -> None:
    source = lines('{"a": 1}', "{oops", "", "[1]", '{"a": 2}')
    first, broken, listed, last = read_rows(source, "train")
    assert (first, last) == (Found("line 1", {"a": 1}), Found("line 5", {"a": 2}))
    assert broken.where == "line 2" and "not JSON" in broken.fault
    assert listed.where == "line 4" and "list" in listed.fault


def test_a_csv_row_of_another_width_is_a_fault(lines: Callable[..., str]) -> None:
    found = list(read_rows(lines("a,b", "1,2", "3", "4,5,6", name="a.csv"), "train"))
    assert [row.where for row in found if row.fault] == ["line 3", "line 4"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.json", "{oops", "not JSON"),
        ("a.json", '{"a": 1}', "must be a list"),
        ("a.csv", 'a,b\n1,"2', "not CSV"),
        ("a.parquet", "nonsense", "cannot be read as Parquet"),
        ("a.txt", "hello", "must end in one of .jsonl"),
    ],
)
def test_unreadable_files(lines: Callable[..., str], name: str, content: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        list(read_rows(lines(content, name=name), "train"))


@pytest.mark.parametrize("source", ["missing.jsonl", "./missing", "/missing/folder"])
def test_a_missing_file_is_named(source: str) -> None:
    with pytest.raises(DataError, match=f"{source}: no such file"):
        read_rows(source, "train")


def test_a_data_set_that_the_hub_does_not_have(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def load(name: str, config: str | None, split: str) -> None:
        asked.append((name, config, split))
        raise ConnectionError("no route to the hub")

    monkeypatch.setattr(datasets, "load_dataset", load)
    with pytest.raises(DataError, match=r"'some/set:main'.*hub: no route"):
        read_rows("some/set:main", "test")
    assert asked == [("some/set", "main", "test")]
