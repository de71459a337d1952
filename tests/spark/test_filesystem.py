"""Names of files, on this machine and in object storage."""

from pathlib import Path

import pytest

from dcpdump.errors import DcpdumpError
from dcpdump.spark.filesystem import below, inputs, resolve_uri


def test_options_of_a_file_system_stay_behind_what_is_below_a_folder() -> None:
    assert below("s3://tables/x/?region=eu-west-1", "works-1") == "s3://tables/x/works-1?region=eu-west-1"
    assert below("s3://tables", "works-1") == "s3://tables/works-1"
    assert below("/tables?/", "works-1") == "/tables?/works-1"


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    where = resolve_uri(str(tmp_path)) / "new" / "state"
    where.write(b"one")
    where.write(b"two")
    assert (where.read(), [each.name for each in (tmp_path / "new").iterdir()]) == (b"two", ["state"])
    with pytest.raises(FileNotFoundError):
        (resolve_uri(str(tmp_path)) / "none").read()


def test_what_is_in_a_folder_keeps_the_account_and_the_host_of_its_name() -> None:
    azure, hdfs = "abfss://in@corp.dfs.core.windows.net/node1/", "hdfs://namenode:8020/node1"
    assert below(azure, "a.pcap") == f"{azure}a.pcap"
    assert below(hdfs, "b c/100%.pcap") == f"{hdfs}/b%20c/100%25.pcap"
    assert below("s3a://in?region=eu-west-1", "a.pcap") == "s3a://in/a.pcap?region=eu-west-1"


def test_what_a_folder_lists_can_be_opened_again(tmp_path: Path) -> None:
    held = tmp_path / "[1] 100%" / "a?.pcap"
    held.parent.mkdir()
    held.write_bytes(b"x")
    for name in (f"file://{tmp_path}", f"file://{tmp_path}/*.pcap", f"file://{tmp_path}/[1] 100%25/*"):
        (found,) = inputs([name])
        assert resolve_uri(found.path).read() == b"x"


def test_an_account_of_wasb_is_the_one_of_abfs() -> None:
    assert resolve_uri("wasbs://in@corp.blob.core.windows.net/a.pcap").path == "in/a.pcap"


def test_a_password_in_a_name_is_refused_and_not_repeated() -> None:
    with pytest.raises(DcpdumpError) as refused:
        resolve_uri("s3://key:secret@bucket/x")
    assert "secret@" not in f"{refused.value} {refused.value.hint}"
