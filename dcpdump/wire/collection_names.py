"""Remember the names of collections and scopes, which system events and manifests give.

A name holds from the frame on that gave it. So frames get the same names whether packets are read one by one or in
blocks.
"""

from bisect import bisect_right, insort
from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol
from weakref import ref

from dcpdump.escape import safe
from dcpdump.spec.document import BEGIN, CREATE, MODIFY
from dcpdump.spec.opcodes import COLLECTIONS_GET_MANIFEST, DCP_SYSTEM_EVENT, SELECT_BUCKET
from dcpdump.wire.frame import Frame

#: Messages that name collections, or the bucket of a connection.
NAMING = frozenset({DCP_SYSTEM_EVENT, COLLECTIONS_GET_MANIFEST, SELECT_BUCKET})
DEFAULT = "_default"  #: the name of the collection, and of the scope, with the id 0
_MOST = 16_384  #: ids that are remembered
#: About how many bytes of memory a name takes.
NAME = 256
_LONGEST = 251
LAST = 1 << 62  #: later than all frames

_Said = tuple[int, str, int]  #: the frame that gave a name, the name, and of a collection its scope; -1: none
_Named = tuple[int, str, int]  #: the id of a collection or scope, its name, and of a collection its scope; -1: none


class Said(NamedTuple):
    """The names that one frame gives."""

    asked: tuple[str, str] | None = None  #: for which bucket: the server, and its name
    selected: bool = False  #: the bucket requested before was selected
    collections: tuple[_Named, ...] = ()
    scopes: tuple[_Named, ...] = ()


class Names(Protocol):
    """The names of collections on a connection. Without ``frame``: as known at the end."""

    def path(self, collection: int, frame: int = ...) -> str | None:
        """Return the name of a collection, as known at a frame: ``scope.collection``."""

    def scope(self, number: int, frame: int = ...) -> str | None:
        """Return the name of a scope, as known at a frame."""

    def known(self) -> list[tuple[int, str]]:
        """Return the ids and names of all collections that were named."""

    def known_scopes(self) -> list[tuple[int, str]]:
        """Return the ids and names of all scopes that were named."""


class CollectionNames:
    """Names by id: what one server said of one bucket, or on one connection."""

    def __init__(self) -> None:
        self._collections: dict[int, list[_Said]] = {}
        self._scopes: dict[int, list[_Said]] = {}

    def learn(self, said: Said, frame: int) -> bool:
        """Store the names that a frame gives, and return whether one is new."""
        scopes = [_store(self._scopes, number, (frame, name, none)) for number, name, none in said.scopes]
        found = [_store(self._collections, number, (frame, name, scope)) for number, name, scope in said.collections]
        return any(scopes) or any(found)

    def path(self, collection: int, frame: int = LAST) -> str | None:
        """Return ``scope.collection``, as known at a frame; without the scope where that has no name; or None."""
        said = _at(self._collections, collection, frame)
        if said is None:
            return None
        scope = self.scope(said[2], frame)
        return said[1] if scope is None else f"{scope}.{said[1]}"

    def scope(self, number: int, frame: int = LAST) -> str | None:
        """Return the name of a scope, as known at a frame. The default scope has its name from the protocol."""
        said = _at(self._scopes, number, frame)
        return said[1] if said is not None else None if number else DEFAULT

    def __len__(self) -> int:
        return sum(map(len, (*self._collections.values(), *self._scopes.values())))

    def forget(self, *, all_names: bool) -> int:
        """Forget the names that were replaced later, or all names. Return how many were forgotten."""
        before = len(self)
        for table in (self._collections, self._scopes):
            for said in table.values():
                del said[:-1]
            if all_names:
                table.clear()
        return before - len(self)

    @property
    def any(self) -> bool:
        """Return whether a collection was named."""
        return bool(self._collections)

    def known(self) -> Iterator[tuple[int, str]]:
        """Yield the id and the last path of each collection."""
        for number, said in self._collections.items():
            yield number, self.path(number) or said[-1][1]

    def known_scopes(self) -> Iterator[tuple[int, str]]:
        """Yield the id and the last name of each scope."""
        for number, said in self._scopes.items():
            yield number, said[-1][1]


def _store(table: dict[int, list[_Said]], number: int, said: _Said) -> bool:
    """Store a name, and return whether it is new."""
    known = table.get(number)
    if known is None:
        if len(table) < _MOST:
            table[number] = [said]
        return number in table
    at = bisect_right(known, said)
    if at and known[at - 1][1:] == said[1:]:
        return False
    insort(known, said)
    return True


def _at(table: dict[int, list[_Said]], number: int, frame: int) -> _Said | None:
    known = table.get(number)
    if known is None:
        return None
    at = bisect_right(known, frame, key=lambda said: said[0])
    return known[at - 1] if at else None


class ConnectionNames:
    """The names on one connection: its own, and once its bucket is known, those of the server's bucket."""

    __slots__ = ("_asked", "_own", "_shared", "_since")

    def __init__(self) -> None:
        self._own: CollectionNames | None = None
        self._shared: CollectionNames | None = None
        self._since = 0
        self._asked: tuple[str, str] | None = None  # the server and the requested bucket

    @property
    def tables(self) -> list[CollectionNames]:
        """Return the tables that it uses."""
        return [each for each in (self._own, self._shared) if each is not None]

    @property
    def any(self) -> bool:
        """Return whether a name may be known."""
        return any(each is not None and each.any for each in (self._own, self._shared))

    def path(self, collection: int, frame: int = LAST) -> str | None:
        """Return the name of a collection as known at a frame: ``scope.collection``."""
        found = self._own.path(collection, frame) if self._own is not None else None
        if found is None and self._shared is not None and frame >= self._since:
            found = self._shared.path(collection, frame)
        return found

    def scope(self, number: int, frame: int = LAST) -> str | None:
        """Return the name of a scope as known at a frame."""
        found = self._own.scope(number, frame) if self._own is not None else None
        if found is None and self._shared is not None and frame >= self._since:
            found = self._shared.scope(number, frame)
        return found

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ConnectionNames) and self.known() == other.known()

    __hash__ = object.__hash__

    def known(self) -> list[tuple[int, str]]:
        """Return the ids and names of all collections that were named, in order."""
        return sorted({each for table in self.tables for each in table.known()})

    def known_scopes(self) -> list[tuple[int, str]]:
        """Return the ids and names of all scopes that were named, in order."""
        return sorted({each for table in self.tables for each in table.known_scopes()})

    def own(self, make: "ServerNames") -> CollectionNames:
        """Return the table for names of this connection."""
        if self._shared is not None:
            return self._shared
        if self._own is None:
            self._own = make.another()
        return self._own

    def learn(self, said: Said, make: "ServerNames", frame: int) -> bool:
        """Store what a frame says of names, and return whether any may be new.

        From the frame on that confirms a bucket, the names of the server's bucket are used. Only the first bucket that
        a connection selects counts.
        """
        if said.asked is not None or said.selected:
            new = self._shared is None
            if new and said.asked is not None:
                self._asked = said.asked
            elif new and self._asked is not None:
                self._shared, self._since = make.of_bucket(self._asked), frame
            return new
        make.count(len(said.collections) + len(said.scopes))
        return self.own(make).learn(said, frame)


class ServerNames:
    """All names of an input: a table for each server and bucket, and one for each connection of an unknown bucket.

    Beyond ``most`` names, those that were replaced are forgotten first, then complete tables, the oldest first. The
    table of one connection is held by that connection alone, and goes with it.
    """

    def __init__(self, most: int = 131_072) -> None:
        self._most = most
        self._names = 0  # how many names there are
        self._tables: list[ref[CollectionNames]] = []  # in the order in which they began
        self._ended: set[tuple[int, str]] = set()  # names from connections that have ended
        self.forgotten = False  #: names were forgotten
        self.by_bucket: dict[tuple[str, str], CollectionNames] = {}  #: by server and bucket

    def state(self) -> "ServerNamesState":
        """Return the state for ``restore``. It holds the tables themselves, so pack it before they change."""
        return self.by_bucket, self._living(), self._names

    def restore(self, state: "ServerNamesState") -> None:
        """Continue from a state. Only for an empty object."""
        self.by_bucket, tables, self._names = state
        self._tables = list(map(ref, tables))

    def count(self, names: int) -> None:
        """Count new names; where there are too many, forget others."""
        if self._names >= self._most:
            self._forget_some()
        self._names += names

    def of_bucket(self, key: tuple[str, str]) -> CollectionNames | None:
        """Return the names of a server and a bucket; None where too many are remembered already."""
        table = self.by_bucket.get(key)
        if table is None and len(self.by_bucket) < _MOST:
            table = self.by_bucket[key] = self.another()
        return table

    def another(self) -> CollectionNames:
        """Return an empty table."""
        table = CollectionNames()
        self._tables.append(ref(table))
        self._names += 1
        return table

    def leave(self, names: ConnectionNames) -> None:
        """Note that a connection has ended: its own names go with it."""
        own = names._own
        if own is not None and len(self._ended) < _MOST:
            self._ended.update(own.known())

    def known(self) -> list[tuple[int, str]]:
        """Return the ids and names of all collections that were named, in order."""
        return sorted(self._ended.union(*(table.known() for table in self._living())))

    def _living(self) -> list[CollectionNames]:
        return [table for each in self._tables if (table := each()) is not None]

    def _forget_some(self) -> None:
        """Forget names until at most three quarters of the limit are left."""
        living = self._living()
        self._tables = list(map(ref, living))
        self._names = sum(map(len, living))
        for all_names in (False, True):
            for table in living:
                if self._names <= self._most * 3 // 4:
                    return
                self._names -= table.forget(all_names=all_names)
                self.forgotten = True


#: The tables by server and bucket; all tables, oldest first; how many names they have.
ServerNamesState = tuple[dict[tuple[str, str], CollectionNames], list[CollectionNames], int]


def said_by(frame: Frame, document: Any, server: str) -> Said | None:
    """Return the names in a frame of NAMING; None without any. ``document``: its JSON; ``server``: the receiver."""
    opcode, response = frame.header.opcode, frame.magic.response
    if opcode == SELECT_BUCKET:
        if response:
            return None if frame.header.vbucket_or_status else Said(selected=True)
        return None if frame.key is None else Said(asked=(server, safe(frame.key[:_LONGEST])))
    if opcode == DCP_SYSTEM_EVENT:
        return _said_by_event(frame)
    return _said_by_manifest(document) if response and isinstance(document, dict) else None


def _said_by_event(frame: Frame) -> Said | None:
    event, scope, collection = frame.get("event"), frame.get("scope_id"), frame.get("collection_id")
    if not frame.key or len(frame.key) > _LONGEST:
        return None
    name = safe(frame.key)
    if event in (BEGIN, MODIFY) and collection is not None:
        return Said(collections=((collection, name, -1 if scope is None else scope),))
    return Said(scopes=((scope, name, -1),)) if event == CREATE and scope is not None else None


def _said_by_manifest(manifest: dict[str, Any]) -> Said:
    """Read a manifest: ``{"scopes": [{"name", "uid", "collections": [{"name", "uid"}]}]}``, uids in hex."""
    scopes: list[_Named] = []
    collections: list[_Named] = []
    for scope in _objects(manifest.get("scopes")):
        scope_id = _identity(scope)
        if scope_id is None:
            continue
        scopes.append((scope_id, safe(str(scope.get("name"))[:_LONGEST]), -1))
        for collection in _objects(scope.get("collections")):
            found = _identity(collection)
            if found is not None:
                collections.append((found, safe(str(collection.get("name"))[:_LONGEST]), scope_id))
    return Said(None, False, tuple(collections), tuple(scopes))


def _objects(found: Any) -> list[dict[str, Any]]:
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def _identity(thing: dict[str, Any]) -> int | None:
    """Return the uid of a named scope or collection; None where it is not a number of 32 bits."""
    try:
        number = int(str(thing["uid"]), 16)
    except (KeyError, ValueError):
        return None
    return number if 0 <= number <= 0xFFFFFFFF and isinstance(thing.get("name"), str) else None
