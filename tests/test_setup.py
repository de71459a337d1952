"""What is needed to build the package."""

import ast
import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from fnmatch import fnmatch
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


def module(name: str) -> Path | None:
    """Return where a module of the package is; None where the name is of no module."""
    at = PACKAGE.parent.joinpath(*name.split("."))
    return next((path for path in (at.with_suffix(".py"), at / "__init__.py") if path.exists()), None)


def seen_from(names: list[str]) -> set[str]:
    """Return all modules that the type checker enters from some modules, of ours and of others."""
    seen: set[str] = set()
    while names:
        name = names.pop()
        if name not in seen:
            seen.add(name)
            path = module(name) if name.partition(".")[0] == "dcpdump" else None
            names += [name.rpartition(".")[0]] if path and "." in name else []
            names += imports(path) if path else []
    return seen


def test_a_build_needs_each_library_with_types_that_the_compiler_enters() -> None:
    override = re.search(r"^module = (\[.*\])$", (ROOT / "pyproject.toml").read_text(), re.M)
    skipped = ast.literal_eval(override[1]) if override else []
    others = {
        name.partition(".")[0]
        for name in seen_from(compiled())
        if not any(fnmatch(f"{name}.", pattern) for pattern in skipped)
    } - {"dcpdump", "mypy_extensions", *sys.stdlib_module_names}  # the latter comes with mypy
    needed = {need.partition(">")[0] for need in ast.literal_eval(assigned("NEEDED"))}
    assert needed == {"mypy", *others}


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
