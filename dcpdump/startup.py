"""Start quickly: data classes and regular expressions made on first use, libraries without the parts not used here."""

import dataclasses
import os
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import field as field
from operator import attrgetter
from reprlib import recursive_repr
from types import ModuleType
from typing import TYPE_CHECKING, Any, AnyStr, TypeVar

# -- data classes, in a third of the time that the standard library's decorator takes -----------------
# In Python 3.11, ``dataclasses`` compiles six functions when a class is made: ``__init__``, ``__repr__``, ``__eq__``,
# ``__hash__``, ``__setattr__`` and ``__delattr__``. That took a quarter of the time until a first frame was printed.
# Here only ``__init__`` is compiled, when the first object is made. ``frozen`` is enforced by the type checker alone.

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:
    _Class = TypeVar("_Class", bound=type)

    def dataclass(*, frozen: bool = False, slots: bool = False, eq: bool = True) -> Callable[[_Class], _Class]:
        """Return a decorator that makes a class a data class, as ``dataclasses.dataclass`` does."""

        def decorate(cls: _Class) -> _Class:
            made = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots)(cls)
            fields = dataclasses.fields(made)
            _add(made, __init__=_first_init_of(made))
            _add(made, __repr__=_repr_of([field.name for field in fields if field.repr]))
            if eq:
                values_of = _values_of([field.name for field in fields if field.compare])
                _add(made, __hash__=(lambda self: hash(values_of(self))) if frozen else None)
                _add(made, __eq__=_eq_of(values_of))
            return made

        return decorate


def _add(cls: type, **methods: Callable[..., Any] | None) -> None:
    """Add methods to a class that it does not define itself."""
    for name, method in methods.items():
        if name not in cls.__dict__:
            setattr(cls, name, method)


def _first_init_of(cls: type) -> Callable[..., None]:
    """Return an ``__init__`` that compiles the one of the class, and replaces itself with it."""

    def initialize(self: Any, *args: Any, **named: Any) -> None:
        cls.__init__ = _init_of(cls)  # type: ignore[misc]
        cls.__init__(self, *args, **named)  # type: ignore[misc]

    return initialize


def _init_of(cls: Any) -> Any:
    """Compile the ``__init__`` of a data class."""
    parameters, lines, names = ["self"], list[str](), dict[str, Any]()
    for each in dataclasses.fields(cls):
        value = f"default_{each.name}"
        if each.default_factory is not dataclasses.MISSING:
            names[value], make = each.default_factory, f"{value}()"
            if each.init:
                parameters.append(f"{each.name}={value}")
                make = f"{make} if {each.name} is {value} else {each.name}"
        elif each.default is not dataclasses.MISSING:
            names[value], make = each.default, each.name
            parameters.append(f"{each.name}={value}")
        elif each.init:
            parameters.append(make := each.name)
        else:
            continue
        lines.append(f"self.{each.name} = {make}")
    lines += ["self.__post_init__()"] * hasattr(cls, "__post_init__")
    exec(f"def __init__({', '.join(parameters)}):\n " + "\n ".join(lines or ["pass"]), names)
    return names["__init__"]


def _values_of(names: list[str]) -> Callable[[Any], Any]:
    return attrgetter(*names) if names else lambda _: ()


def _repr_of(names: list[str]) -> Callable[[Any], str]:
    shown = "(" + ", ".join([f"{name}=%r" for name in names]) + ")"
    values_of = _values_of(names)
    single = len(names) == 1  # for one field, ``attrgetter`` returns no tuple

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
# A module has many patterns, of which a run needs few.

if TYPE_CHECKING:
    lazy_pattern = re.compile
else:

    class lazy_pattern:
        """A pattern like that of ``re.compile``, which is compiled on first use of a method or attribute."""

        def __init__(self, text: AnyStr, flags: int = 0) -> None:
            self._given = text, flags

        def __reduce__(self) -> tuple[Any, ...]:
            """Return how to make it again: compiled attributes are not pickled."""
            return lazy_pattern, self._given

        def __getattr__(self, name: str) -> Any:
            """Return an attribute of the compiled pattern, and keep it, so that this is not called again."""
            found = getattr(re.compile(*self._given), name)
            setattr(self, name, found)
            return found


def is_compiled(module: str = "dcpdump.net.batch") -> bool:
    """Return whether a module is compiled: all are, or none. Interpreted modules do the same, several times slower."""
    from importlib.machinery import EXTENSION_SUFFIXES  # here, as only some commands need it
    from importlib.util import find_spec

    spec = find_spec(module)
    return spec is not None and (spec.origin or "").endswith(tuple(EXTENSION_SUFFIXES))


# -- libraries without what is not used here: NumPy without threads, pyarrow without pandas ------------

#: Environment variables for the number of threads of the libraries behind NumPy.
_BLAS_THREADS = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS")


class _Without:
    """A finder of modules that finds no pandas, and leaves all others to others."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> None:
        """Raise ImportError for pandas."""
        if name == "pandas":
            raise ModuleNotFoundError(f"{name} is not to be imported", name=name)


def keep_pandas_out() -> None:
    """Have no module of this process import pandas, as pyarrow does with its first array: that takes half a second.

    For a process of our own alone.
    """
    sys.meta_path.insert(0, _Without())


def keep_numpy_to_one_thread() -> None:
    """Keep NumPy from starting threads when it is imported, regardless of the environment.

    dcpdump does not compute with matrices, so these threads would only do harm: they would keep the rights that the
    main thread drops, and where processes are limited NumPy could not be imported.
    """
    os.environ.update(dict.fromkeys(_BLAS_THREADS, "1"))
