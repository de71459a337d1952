"""What is needed to build the package."""

import ast
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

from tests.test_floors import PACKAGE, imports

ROOT = Path(__file__).parent.parent


def assigned(name: str) -> ast.expr:
    """Return what ``setup.py`` assigns to a name."""
    return next(
        node.value
        for node in ast.parse((ROOT / "setup.py").read_text()).body
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in node.targets)
    )


def compiled() -> list[str]:
    """Return the names of the modules that are compiled."""
    listed = assigned("COMPILED")
    assert isinstance(listed, ast.Call)
    assert isinstance(listed.func, ast.Attribute)
    return ["dcpdump." + place.replace("/", ".") for place in ast.literal_eval(listed.func.value).split()]


def module(name: str) -> Path:
    """Return where a module of the package is."""
    return PACKAGE.parent.joinpath(*name.split(".")).with_suffix(".py")


def test_a_compiled_module_asks_no_library_for_its_types() -> None:
    others = {name.partition(".")[0] for each in compiled() for name in imports(module(each))} - {
        "dcpdump",
        "mypy_extensions",
        *sys.stdlib_module_names,
    }  # the latter comes with mypy
    assert others == set()
    assert ast.literal_eval(assigned("NEEDED")) == ["mypy>=2.4"]


def test_a_source_distribution_has_all_that_its_readme_and_tests_use(tmp_path: Path) -> None:
    kept = shutil.ignore_patterns(".*", "*.egg-info", "__pycache__", "*.so", "build", "dist")
    source = tmp_path / "source"
    shutil.copytree(ROOT, source, ignore=kept)
    made = subprocess.run(
        [sys.executable, "-c", f"from setuptools import build_meta; print(build_meta.build_sdist({str(tmp_path)!r}))"],
        cwd=source,
        env={**os.environ, "DCPDUMP_PURE": "1"},
        capture_output=True,
        text=True,
    )
    assert made.returncode == 0, made.stderr
    with tarfile.open(tmp_path / made.stdout.split()[-1]) as archive:
        held = {Path(*Path(member.name).parts[1:]) for member in archive if member.isfile()}
    wanted = {each.relative_to(ROOT) for folder in ("dcpdump", "samples", "tests") for each in files(ROOT / folder)}
    wanted |= {Path(name) for name in ("CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "README.md", "setup.py")}
    assert wanted - held == set()


def files(folder: Path) -> Iterator[Path]:
    """Yield the files of a folder that are written by hand, or kept beside those."""
    for each in folder.rglob("*"):
        if each.is_file() and each.suffix not in (".so", ".pyc"):
            yield each
