"""Compile regular expressions when they are first used: of many that a module has, few runs need more than some."""

import re
from typing import TYPE_CHECKING, Any, AnyStr

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
