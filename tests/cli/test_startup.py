"""A start that is quick: what it does not load, and what is made quickly but as the standard library makes it."""

import dataclasses
import os
import pickle
import re
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from dcpdump import __version__
from dcpdump.net import batch
from dcpdump.startup import dataclass, lazy_pattern
from tests.support.console import run

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


@pytest.mark.parametrize("words", ["--version -v", "-v --version"])
def test_the_version_says_whether_it_is_compiled(words: str) -> None:
    built = "interpreted" if batch.__file__.endswith(".py") else "compiled"
    assert run(f"dcpdump {words}").out == f"dcpdump {__version__} ({built})\n"


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
        "dcpdump: error: a bug in dcpdump: EOFError: marshal data too short\n"
        "hint: run again with 'dcpdump --debug …' and report what it prints\n"
    )


Decorator = Callable[..., Callable[[type], type]]


def point(decorator: Decorator, **how: bool) -> type:
    """Return a class that was made with a decorator."""

    class Point:
        """A point."""

        x: int
        y: int = 2
        label: str = dataclasses.field(default="", compare=False)
        secret: int = dataclasses.field(default=0, repr=False, compare=False)

    Point.__qualname__ = Point.__name__
    return decorator(**how)(Point)


HOW = [{}, {"slots": True}, {"frozen": True}, {"frozen": True, "slots": True}, {"slots": True, "eq": False}]


@pytest.mark.parametrize("how", HOW, ids=str)
def test_it_shows_compares_hashes_and_replaces_as_one_of_the_standard_library(how: dict[str, bool]) -> None:
    def facts(made: Any) -> list[object]:
        one, same, other = made(1), made(1, label="same", secret=3), made(1, 3)
        hashes = [type(one).__hash__ is None or (hash(one) == hash(same), hash(one) == hash(other))]
        replaced = dataclasses.replace(one, y=4)
        return [repr(one), one == same, one == other, one == 1, hashes, repr(replaced), hasattr(one, "__dict__")]

    assert facts(point(dataclass, **how)) == facts(point(dataclasses.dataclass, **how))


def test_a_method_of_its_own_is_kept() -> None:
    @dataclass(slots=True)
    class Mine:
        """A class with its own text."""

        x: int

        def __repr__(self) -> str:
            return "mine"

        def __hash__(self) -> int:
            return 5

    assert (repr(Mine(1)), hash(Mine(1))) == ("mine", 5)
    assert Mine(1) == Mine(1)


def test_one_that_has_itself_is_shown_once() -> None:
    @dataclass(slots=True)
    class Node:
        """A class that can have itself."""

        next: Any = None

    node = Node()
    node.next = node
    assert repr(node) == f"{Node.__qualname__}(next=...)"


def test_one_field_that_is_a_tuple_is_shown_as_one() -> None:
    @dataclass(frozen=True, slots=True)
    class Pair:
        """A class with one field."""

        of: tuple[int, ...]

    assert repr(Pair((1, 2))) == f"{Pair.__qualname__}(of=(1, 2))"


def test_one_without_fields_is_equal_to_another() -> None:
    @dataclass(frozen=True, slots=True)
    class Nothing:
        """A class without fields."""

    assert (Nothing(), hash(Nothing()), repr(Nothing())[-9:]) == (Nothing(), hash(()), "Nothing()")


@dataclass(frozen=True, slots=True)
class Sent:
    """A class that can be imported."""

    x: int


def test_it_can_be_sent_to_another_process() -> None:
    assert pickle.loads(pickle.dumps(Sent(5))) == Sent(5)


def test_a_pattern_finds_what_the_compiled_one_finds() -> None:
    ours, theirs = lazy_pattern(r"(\d+)-(?P<end>\w)", re.I), re.compile(r"(\d+)-(?P<end>\w)", re.I)
    for text in ("12-A", "no", "x 3-b y 4-c"):
        assert ours.findall(text) == theirs.findall(text)
        assert ours.sub("_", text) == theirs.sub("_", text)
        for method in ("match", "fullmatch", "search"):
            mine, other = getattr(ours, method)(text), getattr(theirs, method)(text)
            assert (mine and mine.groupdict()) == (other and other.groupdict())
            assert (mine and mine.span()) == (other and other.span())
    assert (ours.pattern, ours.flags, ours.groupindex) == (theirs.pattern, theirs.flags, theirs.groupindex)


def test_nothing_is_compiled_before_it_is_used() -> None:
    wrong = lazy_pattern("(")
    with pytest.raises(re.error, match="missing"):
        wrong.match("")


def test_a_pattern_can_be_sent_to_another_process_whether_it_was_used_or_not() -> None:
    used = lazy_pattern(rb"\d+")
    assert used.findall(b"1 23") == [b"1", b"23"]
    for pattern in (used, lazy_pattern(rb"\d+")):
        assert pickle.loads(pickle.dumps(pattern)).findall(b"4 56") == [b"4", b"56"]
