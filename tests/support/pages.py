"""Pages as tests see them: parsed by the standard library's parser, which knows no browser's forgiveness."""

import json
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from tests.support.console import run

_VOID = frozenset({"br", "col", "hr", "img", "input", "link", "meta"})


@dataclass
class Node:
    """An element, with its attributes, the text in it, and what it contains."""

    name: str
    attributes: dict[str, str]
    children: list["Node"] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    parent: "Node | None" = None

    @property
    def text(self) -> str:
        """All text in it, in order."""
        return "".join(self.texts)

    def all(self, name: str = "", **wanted: str) -> list["Node"]:
        """Return the elements in it of a name, and with attributes of these values."""
        found = []
        for child in self.children:
            if (not name or child.name == name) and all(
                child.attributes.get(key.rstrip("_").replace("_", "-")) == value for key, value in wanted.items()
            ):
                found.append(child)
            found += child.all(name, **wanted)
        return found


class _Parser(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Node("", {})
        self._open = self.root

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), f"an attribute twice in <{tag}>: {names}"
        node = Node(tag, {name: value or "" for name, value in attrs}, parent=self._open)
        self._open.children.append(node)
        if tag not in _VOID:
            self._open = node

    def handle_endtag(self, tag: str) -> None:
        assert self._open.name == tag, f"</{tag}> closes <{self._open.name}>"
        assert self._open.parent is not None
        self._open = self._open.parent

    def handle_data(self, data: str) -> None:
        node: Node | None = self._open
        while node is not None:
            node.texts.append(data)
            node = node.parent


def parsed(text: str) -> Node:
    """Return the root of a page; every element has to be closed where it was opened."""
    parser = _Parser()
    parser.feed(text)
    parser.close()
    assert parser._open is parser.root
    return parser.root


def page_of(path: Path | str, options: str = "") -> str:
    """Return the page of a capture."""
    return run(f"dcpdump report {path} -q {options}").out


def data_of(page: Node) -> Any:
    """Return what a page tells its script."""
    (block,) = page.all("script", id="data")
    return json.loads(block.text)
