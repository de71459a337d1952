"""Make HTML and SVG from elements. Strings are always escaped; only Markup is not.

All text passes ``safe`` here, so that no control, bidi or zero-width character of a capture reaches the page.
"""

from collections.abc import Iterable
from html import escape
from typing import Union

from dcpdump.escape import safe


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


Child = Union[str, "Iterable[Child]", None]
Value = str | int | float | bool | None

_VOID = frozenset({"br", "col", "hr", "img", "input", "link", "meta"})


def element(name: str, /, *children: Child, **attributes: Value) -> Markup:
    """Return an element. Attributes: None and False vanish, True stands alone, an underscore is a hyphen.

    A trailing underscore is left out, so that ``class_`` and ``for_`` can be named; one of SVG that has capitals stays
    as it is.
    """
    words = [name]
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        label = key.rstrip("_").replace("_", "-") if key.islower() else key
        words.append(label if value is True else f'{label}="{_attribute(value)}"')
    opened = f"<{' '.join(words)}>"
    return Markup(opened if name in _VOID else f"{opened}{joined(children)}</{name}>")


def joined(children: Iterable[Child]) -> Markup:
    """Return children as one piece of HTML."""
    return Markup("".join(map(_child, children)))


def _child(child: Child) -> str:
    if child is None:
        return ""
    if isinstance(child, Markup):
        return child
    return escape(safe(child), quote=False) if isinstance(child, str) else joined(child)


def _attribute(value: str | int | float) -> str:
    if isinstance(value, Markup):
        return value
    if isinstance(value, float):
        return f"{value:.2f}".rstrip("0").rstrip(".")
    return escape(safe(value), quote=True) if isinstance(value, str) else str(value)
