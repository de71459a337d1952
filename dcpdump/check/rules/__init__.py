"""The rules, by family. This list is all there is: nothing is found by scanning."""

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

RULES: tuple[Rule, ...] = tuple(
    sorted(
        (
            *framing.RULES,
            *shape.RULES,
            *datatypes.RULES,
            *keys.RULES,
            *connection.RULES,
            *controls.RULES,
            *requests.RULES,
            *rollbacks.RULES,
            *lifecycle.RULES,
            *endings.RULES,
            *marker.RULES,
            *snapshot.RULES,
            *content.RULES,
            *seqno.RULES,
            *durable.RULES,
            *flow_control.RULES,
            *keep_alive.RULES,
            *takeover.RULES,
        ),
        key=lambda rule: rule.code,
    )
)
BY_NAME: dict[str, Rule] = {name: rule for rule in RULES for name in (rule.code, rule.id)}
