"""The collections or the scope that a stream request asks for, with their names where they are known."""

from collections.abc import Sequence

from dcpdump.streams.request import Request
from dcpdump.wire.collection_names import Names


def filter_text(request: Request, names: Names | None) -> str:
    """Return the collections or the scope that a request asks for."""
    if request.scope is not None:
        return f"scope {scope_text(request.scope, names)}"
    return ", ".join(collection_texts(request.collections or (), names))


def scope_text(scope: str, names: Names | None) -> str:
    """Return the id of a scope, as a request has it, with its name."""
    return _called(scope, scope_name(scope, names))


def collection_texts(collections: Sequence[str], names: Names | None) -> list[str]:
    """Return ids of collections, as a request has them, with their names."""
    known = collection_names(collections, names)
    return [_called(each, known.get(each)) for each in collections]


def collection_names(collections: Sequence[str], names: Names | None) -> dict[str, str]:
    """Return the names of collections, by the text that a request has for their ids."""
    ids = {text: number_of(text) for text in collections}
    found = {text: names.path(number) for text, number in ids.items() if names is not None and number is not None}
    return {text: path for text, path in found.items() if path}


def scope_name(scope: str | None, names: Names | None) -> str | None:
    """Return the name of a scope."""
    number = number_of(scope)
    return None if names is None or number is None else names.scope(number)


def number_of(text: str | None) -> int | None:
    """Return the id of a collection or scope, which requests have as hexadecimal text."""
    try:
        return None if text is None else int(text, 16)
    except ValueError:
        return None


def _called(number: str, name: str | None) -> str:
    text = number if number_of(number) is None else f"0x{number.removeprefix('0x')}"
    return f"{text} {name}" if name else text
