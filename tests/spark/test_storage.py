"""Captures and tables in object storage, against a server of S3 on this machine."""

import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import FAST_START
from tests.support.console import run
from tests.support.live import children_of
from tests.support.tables import exported, found, ordered

SAMPLES = ("replica", "damage", "slow-consumer")
TABLES = ("frames", "gaps", "streams", "findings", "files")


@pytest.fixture(scope="module")
def bucket() -> Iterator[str]:
    """Yield an empty bucket, and an environment in which Arrow finds it."""
    pytest.importorskip("moto", reason="moto is not installed: object storage is not tested")
    pytest.importorskip("flask", reason="flask is not installed: object storage is not tested")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    patch = pytest.MonkeyPatch()
    for name, value in {
        "AWS_ACCESS_KEY_ID": "tester",
        "AWS_SECRET_ACCESS_KEY": "tester",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_EC2_METADATA_DISABLED": "true",
    }.items():
        patch.setenv(name, value)
    try:
        _await(port)
        s3().create_dir("archive")
        yield "archive"
    finally:
        patch.undo()
        server.terminate()
        server.wait()


def _await(port: int) -> None:
    for _ in range(200):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise TimeoutError("the server of S3 did not start")


def s3() -> Any:
    """Return the file system of the server."""
    from pyarrow import fs

    return fs.FileSystem.from_uri("s3://archive?allow_bucket_creation=true")[0]


@pytest.fixture(scope="module")
def archive(bucket: str) -> str:
    """Return captures in the bucket, and a file that is not one."""
    system = s3()
    for name in SAMPLES:
        with system.open_output_stream(f"{bucket}/captures/{name}.pcap") as file:
            file.write(Path(f"samples/{name}.pcap").read_bytes())
    with system.open_output_stream(f"{bucket}/captures/readme.txt") as file:
        file.write(b"these are captures")
    return f"s3://{bucket}/captures"


def stored(folder: str, table: str) -> list[dict[str, Any]]:
    """Return the rows of a table in the bucket."""
    import pyarrow.parquet as pq
    from pyarrow import fs

    system, rows = s3(), []
    for each in system.get_file_info(fs.FileSelector(f"{folder}/{table}", allow_not_found=True, recursive=True)):
        if each.type is fs.FileType.File:
            rows += pq.ParquetFile(each.path, filesystem=system).read().to_pylist()
    return ordered(rows)


def top(folder: str) -> set[str]:
    """Return the names of what is in a folder of the bucket."""
    from pyarrow import fs

    return {each.base_name for each in s3().get_file_info(fs.FileSelector(folder))}


def named(rows: list[dict[str, Any]], archive: str) -> list[dict[str, Any]]:
    """Return rows of captures in ``samples`` as if those were in the archive."""
    return ordered([{**row, "file": row["file"].replace("samples", archive)} for row in rows])


def expected(tmp_path: Path) -> Path:
    """Return the export of the same captures from this machine."""
    run(f"dcpdump export {' '.join(f'samples/{name}.pcap' for name in SAMPLES)} -o {tmp_path}/export -q")
    return tmp_path / "export"


def test_captures_and_tables_may_be_in_object_storage(archive: str, bucket: str, tmp_path: Path) -> None:
    printed = run(f"dcpdump pipeline {archive} -o s3://{bucket}/tables --capture-id x --engine local -q")
    assert (printed.code, printed.out) == (4, "")
    frames = stored(f"{bucket}/tables", "frames")
    assert frames == named(exported(expected(tmp_path), "frames"), archive)
    assert [row["file"] for row in stored(f"{bucket}/tables", "files")] == sorted(
        f"{archive}/{name}.pcap" for name in SAMPLES
    )


@pytest.fixture
def cluster() -> Iterator[str]:
    """Yield the master of a cluster on this machine; the logs that it leaves are removed."""
    pyspark = pytest.importorskip("pyspark", reason="Spark is not installed: no cluster is tested")
    logs = Path(pyspark.__file__).parent / "work"
    if not os.access(logs.parent, os.W_OK):
        pytest.skip("Spark's own folder cannot be written: no cluster is tested")
    before = set(logs.iterdir()) if logs.exists() else set()
    yield "local-cluster[2,1,768]"
    for left in set(logs.iterdir()) - before if logs.exists() else set():
        shutil.rmtree(left)


def executor_of(driver: int) -> int | None:
    """Return an executor of a driver once it has started Python."""
    for java in children_of(driver):
        for executor in children_of(java):
            with suppress(FileNotFoundError, ProcessLookupError):  # what starts Java ended meanwhile
                is_one = b"CoarseGrainedExecutorBackend" in Path(f"/proc/{executor}/cmdline").read_bytes()
                if is_one and any(
                    b"pyspark.daemon" in Path(f"/proc/{each}/cmdline").read_bytes() for each in children_of(executor)
                ):
                    return executor
    return None


def await_executor(started: "subprocess.Popen[bytes]") -> int:
    """Return an executor that works for a driver."""
    while (executor := executor_of(started.pid)) is None:
        assert started.poll() is None, "it ended before an executor was there"
    return executor


@pytest.mark.nightly
def test_executors_of_their_own_read_and_write_object_storage_though_one_is_killed_and_a_driver_was(
    archive: str, bucket: str, cluster: str, tmp_path: Path
) -> None:
    words = (
        f"pipeline {archive} -o s3://{bucket}/spark?region=us-east-1 --capture-id x --split 8k -q --master {cluster}"
    )
    words += " --conf spark.executor.memory=768m"
    for java in ("driver", "executor"):  # which is to start fast rather than to become fast
        words += f" --conf 'spark.{java}.defaultJavaOptions={FAST_START}'"
    command = [sys.executable, "-m", "dcpdump", *shlex.split(words)]
    errors = tmp_path / "errors"
    with errors.open("wb") as err:
        with subprocess.Popen(command, stdout=err, stderr=err) as started:
            executor = await_executor(started)
            started.kill()
        ends = time.monotonic() + 60
        while Path(f"/proc/{executor}").exists():  # which ends with its driver
            assert time.monotonic() < ends
            time.sleep(0.1)
        assert [stored(f"{bucket}/spark", table) for table in TABLES] == [[]] * len(TABLES)
        errors.write_bytes(b"")
        started = subprocess.Popen(command, stdout=err, stderr=err)
        os.kill(await_executor(started), signal.SIGKILL)
        assert (started.wait(), errors.read_text()) == (4, "")
    assert stored(f"{bucket}/spark", "frames") == named(exported(expected(tmp_path), "frames"), archive)
    run(f"dcpdump pipeline {archive} -o {tmp_path}/local --engine local -q")
    for table in TABLES[1:]:
        assert stored(f"{bucket}/spark", table) == found(tmp_path / "local", table), table
    left = top(f"{bucket}/spark") - set(TABLES)  # as the page of help says: nothing there shows whose run still writes
    assert [re.sub("[0-9a-f]{12}", "…", each) for each in left] == [".x.….part"]


def test_a_second_run_leaves_only_its_own_rows_and_nothing_beside(archive: str, bucket: str) -> None:
    for name in ("replica", "damage"):
        run(f"dcpdump pipeline {archive}/{name}.pcap -o s3://{bucket}/again --capture-id x --engine local -q")
    assert {row["file"] for row in stored(f"{bucket}/again", "frames")} == {f"{archive}/damage.pcap"}
    assert top(f"{bucket}/again") == set(TABLES)


def test_a_glob_chooses_among_objects(archive: str, tmp_path: Path) -> None:
    assert run(f"dcpdump pipeline '{archive}/*e*.pcap' -o {tmp_path}/out --engine local -q").code == 4
    names = {row["file"].rpartition("/")[2] for row in found(tmp_path / "out", "files")}
    assert names == {"replica.pcap", "damage.pcap", "slow-consumer.pcap"}


def test_what_is_not_there_is_said(archive: str, tmp_path: Path) -> None:
    for name in (f"{archive}/none.pcap", f"{archive}/*.pcapng", "nowhere://bucket/x"):
        printed = run(f"dcpdump pipeline {name} -o {tmp_path}/out -q")
        assert printed.code in (2, 3)
        assert f"({name})" in printed.err
        assert not (tmp_path / "out").exists()
