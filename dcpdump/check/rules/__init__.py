"""The rules, by what they are about. A rule is a function under ``@rule`` in one of these modules."""

from dcpdump.check.rule import Rule
from dcpdump.check.rules import connections, contents, durability, frames, snapshots, streams

_MODULES = (frames, contents, connections, streams, snapshots, durability)
_FOUND = [each for module in _MODULES for each in vars(module).values() if isinstance(each, Rule)]
RULES: tuple[Rule, ...] = tuple(sorted(_FOUND, key=lambda rule: rule.code))
BY_NAME: dict[str, Rule] = {name: rule for rule in RULES for name in (rule.code, rule.id)}
