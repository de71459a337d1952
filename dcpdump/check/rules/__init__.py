"""The rules, by what they are about. A rule is a function under ``@rule`` in one of these modules."""

from dcpdump.check.rule import Rule
from dcpdump.check.rules import (
    connection,
    content,
    controls,
    datatypes,
    durable,
    endings,
    flow_control,
    framing,
    keep_alive,
    keys,
    lifecycle,
    marker,
    requests,
    rollbacks,
    seqno,
    shape,
    snapshot,
    takeover,
)

_MODULES = (
    framing,
    shape,
    datatypes,
    keys,
    connection,
    controls,
    requests,
    rollbacks,
    lifecycle,
    endings,
    marker,
    snapshot,
    content,
    seqno,
    durable,
    flow_control,
    keep_alive,
    takeover,
)
_FOUND = [each for module in _MODULES for each in vars(module).values() if isinstance(each, Rule)]
RULES: tuple[Rule, ...] = tuple(sorted(_FOUND, key=lambda rule: rule.code))
BY_NAME: dict[str, Rule] = {name: rule for rule in RULES for name in (rule.code, rule.id)}
