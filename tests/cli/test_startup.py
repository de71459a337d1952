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
LOADED = (
    "import shlex, sys\n"
    "from dcpdump.cli.main import outcome\n"
    "codes = [outcome(shlex.split(command)) for command in sys.argv[1:]]\n"
    "print(*codes, *sorted(sys.modules), file=sys.stderr)\n"
)


def loaded(*commands: str) -> set[str]:
    """Run commands without a terminal, and return the modules that they loaded, also those that contain others."""
    done = subprocess.run([sys.executable, "-c", LOADED, *commands], capture_output=True, text=True, check=True)
    words = done.stderr.splitlines()[-1].split()
    assert words[: len(commands)] == ["0"] * len(commands)
    return set(words)


def test_a_read_that_is_filtered_by_headers_starts_without_columns() -> None:
    assert loaded("read samples/replica.pcap --vbucket 528 -q") & {"numpy", "pyarrow", "scapy"} == set()


@pytest.mark.parametrize(
    ("commands", "rare"),
    [
        ("read streams check", "cramjam hmac subprocess tempfile socket csv glob"),
        ("stats top", "textual"),
    ],
)
def test_what_few_captures_need_is_loaded_for_those_alone(commands: str, rare: str) -> None:
    """What decompresses, what proves secrets of TLS, what starts a pager, temporary files, sockets, csv; a browser."""
    assert loaded(*(f"{name} samples/replica.pcap" for name in commands.split())) & {*rare.split()} == set()


def test_commands_that_read_no_capture_start_light_and_load_nothing_for_colours() -> None:
    commands = ("--version", "--version -v", "--help", "spec", "spec mutation", f"explain {NOOP}")
    assert loaded(*commands) & {"scapy", "numpy", "pyarrow", "pyspark"} == set()
    assert loaded("spec", f"explain {NOOP}") & {"rich", "cramjam"} == set()


@pytest.mark.skipif(find_spec("pandas") is None, reason="pandas is not installed: nothing could import it")
@pytest.mark.parametrize("words", [["sql", "select count(*) from frames"], ["pipeline", "-o", "OUT"]], ids=" ".join)
def test_tables_are_made_without_pandas(words: list[str], tmp_path: Path) -> None:
    """pyarrow imports it where it can, with the first array that it makes."""
    words = [*(word.replace("OUT", f"{tmp_path}/out") for word in words), "samples/replica.pcap", "-q"]
    command = [sys.executable, "-X", "importtime", "-m", "dcpdump", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert ("pyarrow.lib" in imported, [name for name in imported if name.startswith("pandas.")]) == (True, [])


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
