"""Say where the fields of plain frames stand, by the layouts that plans take."""

from typing import TYPE_CHECKING, Final

from dcpdump.batch.plans import Plan
from dcpdump.spec.field import Field
from dcpdump.spec.header import ALT_CLIENT_REQUEST, CLIENT_REQUEST, HEADER_LENGTH, STREAM_ID_LENGTH

if TYPE_CHECKING:
    from mypy_extensions import i64

#: Bytes that nearly all fields stand in. All digits of so many are written at once, see plain_table.
_USUAL: Final = 64


class PlainField:
    """A field of a layout, and where it stands: the bytes ``at`` … ``end``-1 of a frame."""

    def __init__(self, field: Field, at: int) -> None:
        self.field = field
        self.width: i64 = field.width
        self.at: i64 = at
        self.end: i64 = at + field.width


class PlainLayout:
    """What plain frames of a plan have in common, all with a stream id (``framed``), or all without."""

    def __init__(self, plan: Plan, framed: bool) -> None:
        self.plan = plan
        self.message = plan.message
        self.framed = framed
        self.magic = ALT_CLIENT_REQUEST if framed else CLIENT_REQUEST
        self.framing_length = STREAM_ID_LENGTH if framed else 0
        self.keyed = plan.message.collection_key
        self.document = plan.message.document
        self.has_value = not plan.value_fields  #: what follows the key is a value, rather than fields
        self.slots: list[PlainField] = []
        at = HEADER_LENGTH + self.framing_length
        for field in plan.fields:  # those of a value too: then there is no key
            self.slots.append(PlainField(field, at))
            at += field.width
        self.reach = max(at, _USUAL)  #: its fields end there, or before


_LAYOUTS: Final[dict[Plan, tuple[PlainLayout, PlainLayout]]] = {}


def layouts_of(plan: Plan) -> tuple[PlainLayout, PlainLayout]:
    """Return the layouts of a plan: of frames without a stream id, and of those with one."""
    if plan not in _LAYOUTS:
        _LAYOUTS[plan] = (PlainLayout(plan, False), PlainLayout(plan, True))
    return _LAYOUTS[plan]
