"""Names of files, on this machine and in object storage."""

from pathlib import Path

import pytest

from dcpdump.spark.filesystem import below, place


def test_options_of_a_file_system_stay_behind_what_is_below_a_folder() -> None:
    assert below("s3://tables/x/?region=eu-west-1", "works-1") == "s3://tables/x/works-1?region=eu-west-1"
    assert below("s3://tables", "works-1") == "s3://tables/works-1"
    assert below("/tables?/", "works-1") == "/tables?/works-1"


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    where = place(str(tmp_path)) / "new" / "state"
    where.write(b"one")
    where.write(b"two")
    assert (where.read(), [each.name for each in (tmp_path / "new").iterdir()]) == (b"two", ["state"])
    with pytest.raises(FileNotFoundError):
        (place(str(tmp_path)) / "none").read()
