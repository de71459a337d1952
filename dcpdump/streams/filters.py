"""Filters: what is wrong with the JSON of a stream request, by which a producer refuses it."""

from enum import Enum
from typing import Any


class FilterFault(Enum):
    """What is wrong with the JSON of a stream request, in words, and the status of the answer."""

    NOT_JSON = "its value is not a JSON object", "Einval"
    BOTH = "it names a scope and collections", "Einval"
    NOTHING = "its JSON has no key that is known", "Einval"
    TYPE = "its JSON has a value of the wrong type", "Einval"
    NO_ID = "its stream id is 0", "DcpStreamIdInvalid"

    @property
    def text(self) -> str:
        """Return it in words."""
        return self.value[0]

    @property
    def status(self) -> str:
        """Return with which status the request is refused."""
        return self.value[1]


_KNOWN = frozenset({"uid", "collections", "scope", "sid", "purge_seqno", "cts"})


def filter_fault(document: Any) -> FilterFault | None:
    """Return what is wrong with the JSON of a stream request. None of ``document``: it is not JSON."""
    if not isinstance(document, dict):
        return FilterFault.NOT_JSON
    if not _KNOWN & document.keys():
        return FilterFault.NOTHING
    sid, collections = document.get("sid", 1), document.get("collections", [])
    if not isinstance(sid, int) or isinstance(sid, bool) or sid < 0:
        return FilterFault.TYPE
    if not sid:
        return FilterFault.NO_ID
    if "scope" in document and "collections" in document:
        return FilterFault.BOTH
    names = collections if isinstance(collections, list) else [None]
    strings = [document.get("scope", ""), document.get("purge_seqno", ""), *names]
    return None if all(isinstance(each, str) for each in strings) else FilterFault.TYPE
