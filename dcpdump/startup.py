"""Start quickly: data classes and regular expressions that are made when they are needed; and what is compiled."""

import dataclasses
import re
from collections.abc import Callable
from dataclasses import field as field
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any, AnyStr, TypeVar

# -- data classes, in less than half of the time that the standard library's decorator takes ----------
# In Python 3.11 that compiles a function for each of ``__init__``, ``__repr__``, ``__eq__``, ``__hash__``,
# ``__setattr__`` and ``__delattr__`` of each class, when the class is made: of the time until a first frame is printed
# that was a quarter. Here only ``__init__`` is compiled. ``frozen`` is enforced by the type checker, not at run time.

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:
    _Class = TypeVar("_Class", bound=type)

    def dataclass(*, frozen: bool = False, slots: bool = False, eq: bool = True) -> Callable[[_Class], _Class]:
        """Return a decorator that makes a class a dataclass, as that of ``dataclasses`` does."""

        def decorate(cls: _Class) -> _Class:
            made = dataclasses.dataclass(repr=False, eq=False, slots=slots)(cls)
            fields = dataclasses.fields(made)
            _add(made, __repr__=_repr_of([field.name for field in fields if field.repr]))
            if eq:
                values_of = _values_of([field.name for field in fields if field.compare])
                _add(made, __hash__=(lambda self: hash(values_of(self))) if frozen else None)
                _add(made, __eq__=_eq_of(values_of))
            return made

        return decorate


def _add(cls: type, **methods: Callable[..., Any] | None) -> None:
    """Add methods to a class, unless it has its own."""
    for name, method in methods.items():
        if name not in cls.__dict__:
            setattr(cls, name, method)


def _values_of(names: list[str]) -> Callable[[Any], Any]:
    return attrgetter(*names) if names else lambda _: ()


def _repr_of(names: list[str]) -> Callable[[Any], str]:
    shown = "(" + ", ".join([f"{name}=%r" for name in names]) + ")"
    values_of = _values_of(names)
    single = len(names) == 1  # of which a getter returns no tuple

    @recursive_repr()
    def represent(self: Any) -> str:
        values = values_of(self)
        return type(self).__qualname__ + shown % ((values,) if single else values)

    return represent


def _eq_of(values_of: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    def equal(self: Any, other: object) -> Any:
        return values_of(self) == values_of(other) if other.__class__ is self.__class__ else NotImplemented

    return equal


# -- regular expressions that are compiled when they are first used -----------------------------------
# Of many that a module has, few runs need more than some.

if TYPE_CHECKING:
    lazy_pattern = re.compile
else:

    class lazy_pattern:
        """A pattern as ``re.compile`` returns it, which looks like one once a method or an attribute is asked for."""

        def __init__(self, text: AnyStr, flags: int = 0) -> None:
            self._given = text, flags

        def __reduce__(self) -> tuple[Any, ...]:
            """Return how it is made: what it keeps is not for other processes."""
            return lazy_pattern, self._given

        def __getattr__(self, name: str) -> Any:
            """Return what the compiled pattern has, and keep it: it is not asked for here again."""
            found = getattr(re.compile(*self._given), name)
            setattr(self, name, found)
            return found


def is_compiled(module: str = "dcpdump.net.batch") -> bool:
    """Return whether a module is compiled: all are or none. Interpreted ones do the same, several times slower."""
    from importlib.machinery import EXTENSION_SUFFIXES  # here, as only some commands ask
    from importlib.util import find_spec

    spec = find_spec(module)
    return spec is not None and (spec.origin or "").endswith(tuple(EXTENSION_SUFFIXES))
