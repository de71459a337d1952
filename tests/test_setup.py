"""What is needed to build and to install the package, and that hints name it as its own metadata does."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from dcpdump.text import INSTALL_BROWSE, INSTALL_SPARK, INSTALL_TABLES, INSTALL_TLS

ROOT = Path(__file__).parent.parent


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


TOP = Path(__file__).parent.parent


def required(extra: str) -> set[str]:
    """Return the requirements of an extra, as pyproject.toml lists them on one line."""
    found = re.search(rf"^{extra} = \[(.*)\]$", (TOP / "pyproject.toml").read_text("utf-8"), re.MULTILINE)
    assert found
    return set(re.findall(r'"([^"]*)"', found[1]))


@pytest.mark.parametrize(
    ("hint", "extra"),
    [
        (INSTALL_TABLES, "parquet"),
        (INSTALL_SPARK, "spark"),
        (INSTALL_TLS, "tls"),
        (INSTALL_BROWSE, "browse"),
    ],
)
def test_a_hint_names_what_the_package_requires(hint: str, extra: str) -> None:
    assert set(re.findall(r"'([^']*)'", hint)) == required(extra)


def test_nothing_is_installed_from_an_index_where_we_are_not() -> None:
    pages = [*TOP.glob("*.md"), *(TOP / "dcpdump").rglob("*.md"), *(TOP / "dcpdump").rglob("*.py")]
    assert [page.name for page in pages if re.search(r"install '?dcpdump\[", page.read_text("utf-8"))] == []
