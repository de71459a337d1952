"""What a start does not load. Milliseconds differ between machines; the list of loaded modules does not."""

import os
import subprocess
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import find_spec
from pathlib import Path

import pytest

from dcpdump import __version__
from dcpdump.net import batch

NOOP = "805c00000000000000000000819698000000000000000000"
HEAVY = {"scapy", "numpy", "pyarrow", "pyspark"}
LOADED = (
    "import sys\n"
    "from dcpdump.cli.main import outcome\n"
    "code = outcome(sys.argv[1:])\n"
    "print(code, *sorted({name.partition('.')[0] for name in sys.modules}), file=sys.stderr)\n"
)


def loaded(*words: str) -> set[str]:
    """Run a command without a terminal, and return the top-level modules that it loaded."""
    done = subprocess.run([sys.executable, "-c", LOADED, *words], capture_output=True, text=True, check=True)
    code, *modules = done.stderr.splitlines()[-1].split()
    assert code == "0"
    return set(modules)


def test_a_read_that_is_filtered_by_headers_starts_without_columns() -> None:
    assert loaded("read", "samples/replica.pcap", "--vbucket", "528", "-q") & {"numpy", "pyarrow", "scapy"} == set()


@pytest.mark.parametrize("command", ["read", "streams", "check"])
def test_what_few_captures_need_is_loaded_for_those_alone(command: str) -> None:
    """What decompresses, what proves secrets of TLS, what starts a pager, temporary files, sockets and csv."""
    rare = {"cramjam", "hmac", "subprocess", "tempfile", "socket", "csv", "glob"}
    assert loaded(command, "samples/replica.pcap") & rare == set()


@pytest.mark.parametrize(
    "words",
    [("--version",), ("--version", "-v"), ("--help",), ("explain", NOOP), ("spec",), ("spec", "mutation")],
    ids=" ".join,
)
def test_a_command_that_reads_no_capture_starts_light(words: tuple[str, ...]) -> None:
    assert loaded(*words) & HEAVY == set()


@pytest.mark.parametrize("words", [("explain", NOOP), ("spec",)], ids=" ".join)
def test_nothing_is_loaded_for_colours_where_there_is_no_terminal(words: tuple[str, ...]) -> None:
    assert loaded(*words) & {"rich"} == set()


@pytest.mark.parametrize("command", ["stats", "top"])
def test_only_the_browser_loads_what_draws_its_screen(command: str) -> None:
    assert loaded(command, "samples/replica.pcap") & {"textual"} == set()


@pytest.mark.parametrize(
    "command", [["sql", "select count(*) from frames"], ["export", "-o"], ["pipeline", "-o"]], ids=" ".join
)
def test_tables_are_made_without_pandas(command: list[str], tmp_path: Path) -> None:
    """pyarrow imports it where it can, with the first array that it makes."""
    if find_spec("pandas") is None:
        pytest.skip("pandas is not installed: nothing could import it")
    words = [*command, *([str(tmp_path / "out")] if "-o" in command else []), "samples/replica.pcap", "-q"]
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "dcpdump", *words], capture_output=True, text=True, check=True
    )
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "pyarrow.lib" in imported
    assert {name for name in imported if name.startswith("pandas.")} == set()


def test_a_paste_without_compressed_values_does_not_load_the_decompressor() -> None:
    assert loaded("explain", NOOP) & {"cramjam"} == set()


@pytest.mark.parametrize("words", [("--version", "-v"), ("-v", "--version")], ids=" ".join)
def test_the_version_says_whether_it_is_compiled(words: tuple[str, ...]) -> None:
    done = subprocess.run([sys.executable, "-m", "dcpdump", *words], capture_output=True, text=True, check=True)
    beside = (Path(batch.__file__).with_name(f"batch{suffix}") for suffix in EXTENSION_SUFFIXES)
    built = "compiled" if any(each.exists() for each in beside) else "interpreted"
    assert done.stdout == f"dcpdump {__version__} ({built})\n"


def test_bytecode_that_cannot_be_loaded_is_no_interruption(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "dcpdump", "explain", "80"]
    env = {**os.environ, "PYTHONPYCACHEPREFIX": str(tmp_path)}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    subprocess.run(command, env=env, capture_output=True, check=True)
    (cut,) = tmp_path.rglob("cli/explain.*.pyc")
    cut.write_bytes(cut.read_bytes()[:500])
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (70, "")
    assert done.stderr == (
        "dcpdump: error: a bug in dcpdump: RuntimeError: EOFError: marshal data too short\n"
        "hint: run again with 'dcpdump --debug …' and report what it prints\n"
    )
