"""Classes that are made quickly are as those of the standard library."""

import ast
import dataclasses
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from dcpdump.quick_dataclass import dataclass
from tests.test_floors import PACKAGE, imports, nodes_of
from tests.test_setup import compiled, module

Decorator = Callable[..., Callable[[type], type]]


def point(decorator: Decorator, **how: bool) -> type:
    """Return a class that was made with a decorator."""

    class Point:
        """A point."""

        x: int
        y: int = 2
        label: str = dataclasses.field(default="", compare=False)
        secret: int = dataclasses.field(default=0, repr=False, compare=False)

    Point.__qualname__ = Point.__name__
    return decorator(**how)(Point)


HOW = [{}, {"slots": True}, {"frozen": True}, {"frozen": True, "slots": True}, {"slots": True, "eq": False}]


@pytest.mark.parametrize("how", HOW, ids=str)
def test_it_shows_compares_hashes_and_replaces_as_one_of_the_standard_library(how: dict[str, bool]) -> None:
    def facts(made: Any) -> list[object]:
        one, same, other = made(1), made(1, label="same", secret=3), made(1, 3)
        hashes = [type(one).__hash__ is None or (hash(one) == hash(same), hash(one) == hash(other))]
        replaced = dataclasses.replace(one, y=4)
        return [repr(one), one == same, one == other, one == 1, hashes, repr(replaced), hasattr(one, "__dict__")]

    assert facts(point(dataclass, **how)) == facts(point(dataclasses.dataclass, **how))


def test_a_method_of_its_own_is_kept() -> None:
    @dataclass(slots=True)
    class Mine:
        """A class with its own text."""

        x: int

        def __repr__(self) -> str:
            return "mine"

        def __hash__(self) -> int:
            return 5

    assert (repr(Mine(1)), hash(Mine(1))) == ("mine", 5)
    assert Mine(1) == Mine(1)


def test_one_that_has_itself_is_shown_once() -> None:
    @dataclass(slots=True)
    class Node:
        """A class that can have itself."""

        next: Any = None

    node = Node()
    node.next = node
    assert repr(node) == f"{Node.__qualname__}(next=...)"


def test_one_field_that_is_a_tuple_is_shown_as_one() -> None:
    @dataclass(frozen=True, slots=True)
    class Pair:
        """A class with one field."""

        of: tuple[int, ...]

    assert repr(Pair((1, 2))) == f"{Pair.__qualname__}(of=(1, 2))"


def test_one_without_fields_is_equal_to_another() -> None:
    @dataclass(frozen=True, slots=True)
    class Nothing:
        """A class without fields."""

    assert (Nothing(), hash(Nothing()), repr(Nothing())[-9:]) == (Nothing(), hash(()), "Nothing()")


@dataclass(frozen=True, slots=True)
class Sent:
    """A class that can be imported."""

    x: int


def test_it_can_be_sent_to_another_process() -> None:
    assert pickle.loads(pickle.dumps(Sent(5))) == Sent(5)


def test_compiled_modules_take_the_standard_library_s_and_all_others_these() -> None:
    # mypyc knows the standard library's decorator alone: classes of another would not be compared by their fields.
    slow = {
        str(path.relative_to(PACKAGE.parent).with_suffix("")).replace("/", ".")
        for path in PACKAGE.rglob("*.py")
        for node in nodes_of(path)
        if isinstance(node, ast.ImportFrom) and node.module == "dataclasses"
        if any(each.name == "dataclass" for each in node.names)
    }
    quick = [name for name in compiled() if "dcpdump.quick_dataclass" in imports(module(name))]
    assert (quick, sorted(slow - {*compiled(), "dcpdump.quick_dataclass"})) == ([], [])
