"""Hints name libraries that exist, as the package's own metadata requires them, and no package of ours."""

import re
from pathlib import Path

import pytest

from dcpdump import install_hints

TOP = Path(__file__).parent.parent


def required(extra: str) -> set[str]:
    """Return the requirements of an extra, as pyproject.toml lists them on one line."""
    found = re.search(rf"^{extra} = \[(.*)\]$", (TOP / "pyproject.toml").read_text("utf-8"), re.MULTILINE)
    assert found
    return set(re.findall(r'"([^"]*)"', found[1]))


@pytest.mark.parametrize(
    ("hint", "extra"),
    [
        (install_hints.TABLES, "parquet"),
        (install_hints.SPARK, "spark"),
        (install_hints.TLS, "tls"),
        (install_hints.BROWSE, "browse"),
    ],
)
def test_a_hint_names_what_the_package_requires(hint: str, extra: str) -> None:
    assert set(re.findall(r"'([^']*)'", hint)) == required(extra)


def test_nothing_is_installed_from_an_index_where_we_are_not() -> None:
    pages = [*TOP.glob("*.md"), *(TOP / "dcpdump").rglob("*.md"), *(TOP / "dcpdump").rglob("*.py")]
    assert [page.name for page in pages if re.search(r"install '?dcpdump\[", page.read_text("utf-8"))] == []
