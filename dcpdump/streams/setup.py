"""How a connection is set up: HELLO, authentication, bucket, OPEN, controls; and what keeps it alive."""

from collections.abc import Callable

from dcpdump.escape import safe
from dcpdump.streams.facts import Control, Waiting
from dcpdump.streams.sight import Sight
from dcpdump.streams.spoken import whole_number
from dcpdump.streams.state import PRODUCER, SUCCESS, Connection

_HELLO, _SASL_AUTH, _SASL_STEP, _SELECT_BUCKET, _OPEN, _CONTROL, _NOOP = 0x1F, 0x21, 0x22, 0x89, 0x50, 0x5E, 0x5C
_ALL_SEQNOS = 0x48
_CONTINUE = 0x21
_BUFFER_SIZE = "connection_buffer_size"
#: Requests without an answer are forgotten, oldest first, beyond this many.
_WAITING = 4096
_LATENCIES = 100
#: Control keys are remembered up to so many: the protocol has a few dozen.
_CONTROLS = 256
_KEYED = frozenset({_CONTROL, _SELECT_BUCKET, _SASL_AUTH})


def await_answer(connection: Connection, sight: Sight) -> None:
    """A request is sent that has to be answered."""
    if len(connection.waiting) >= _WAITING:
        del connection.waiting[next(iter(connection.waiting))]
    waiting = Waiting(sight.number, sight.ts_ns, sight.opcode, sight.word, sight.stream_id, sight.direction)
    if sight.opcode in _KEYED:
        waiting.key = _text(sight.key)
    if sight.opcode == _CONTROL:
        waiting.value = _text(sight.value)
    elif sight.opcode == _ALL_SEQNOS and sight.get("collection_id") is not None:
        waiting.value = "one collection"
    connection.waiting[sight.direction, sight.opcode, sight.opaque] = waiting


def keep_alive(connection: Connection, sight: Sight) -> None:
    """A DCP_NOOP is sent."""
    noops = connection.noops
    noops.sent += 1
    connection.window.noops += sight.length
    noops.last_ns = noops.open_ns = sight.ts_ns
    noops.open_frame = sight.number


# -- requests -----------------------------------------------------------------------------------------------


def _hello(connection: Connection, sight: Sight) -> None:
    connection.server = 1 - sight.direction
    connection.agent = _text(sight.key) or None
    connection.asked_features = _features(sight)


def _sasl(connection: Connection, sight: Sight) -> None:
    connection.server = 1 - sight.direction
    connection.mechanism = _text(sight.key) or None


def _open(connection: Connection, sight: Sight) -> None:
    connection.server = 1 - sight.direction
    connection.opens += 1
    connection.name = _text(sight.key)
    connection.open_flags, connection.open_frame = sight.get("flags"), sight.number
    if connection.open_flags is not None:
        connection.feeder = connection.server if connection.open_flags & PRODUCER else sight.direction
    connection.window.complete = not connection.lossy


def _control(connection: Connection, sight: Sight) -> None:
    key, value = _text(sight.key), _text(sight.value)
    if key in connection.controls or len(connection.controls) < _CONTROLS:
        connection.controls[key] = Control(key, value, sight.number, sight.ts_ns)
    if key == _BUFFER_SIZE:
        connection.window.ask(whole_number(value))


REQUESTS: dict[int, Callable[[Connection, Sight], None]] = {
    _HELLO: _hello,
    _SASL_AUTH: _sasl,
    _SASL_STEP: _sasl,
    _OPEN: _open,
    _CONTROL: _control,
}


# -- answers ------------------------------------------------------------------------------------------------


def _helloed(connection: Connection, sight: Sight, waiting: Waiting | None) -> None:
    connection.server = sight.direction
    if sight.word == SUCCESS and sight.whole:
        connection.hellos += 1
        connection.features = _features(sight)


def _authenticated(connection: Connection, sight: Sight, waiting: Waiting | None) -> None:
    connection.server = sight.direction
    if sight.word != _CONTINUE:
        connection.authenticated = sight.word == SUCCESS


def _selected(connection: Connection, sight: Sight, waiting: Waiting | None) -> None:
    connection.server = sight.direction
    if sight.word == SUCCESS and waiting is not None:
        connection.bucket = waiting.key


def _opened(connection: Connection, sight: Sight, waiting: Waiting | None) -> None:
    connection.server = sight.direction
    connection.open_status = sight.word
    connection.opened = connection.opened or sight.word == SUCCESS


def _controlled(connection: Connection, sight: Sight, waiting: Waiting | None) -> None:
    if waiting is None:
        return
    control = connection.controls.get(waiting.key)
    if control is not None and control.frame == waiting.frame:
        control.status = sight.word
    size = whole_number(waiting.value) if waiting.key == _BUFFER_SIZE else None
    if size is not None and sight.word == SUCCESS:
        connection.window.resize(size, sight.ts_ns)
    elif waiting.key == _BUFFER_SIZE:
        connection.window.refuse()


def _kept_alive(connection: Connection, sight: Sight, waiting: Waiting | None) -> None:
    noops = connection.noops
    if waiting is None:
        return
    noops.answered += 1
    if noops.open_frame == waiting.frame:
        noops.open_ns = noops.open_frame = None
    if waiting.ts_ns is not None and sight.ts_ns is not None and len(noops.latencies_ns) < _LATENCIES:
        noops.latencies_ns.append(sight.ts_ns - waiting.ts_ns)


ANSWERS: dict[int, Callable[[Connection, Sight, Waiting | None], None]] = {
    _HELLO: _helloed,
    _SASL_AUTH: _authenticated,
    _SASL_STEP: _authenticated,
    _SELECT_BUCKET: _selected,
    _OPEN: _opened,
    _CONTROL: _controlled,
    _NOOP: _kept_alive,
}


def _features(sight: Sight) -> frozenset[int] | None:
    if sight.record is None:
        return None
    fields = sight.record.frame.fields
    return frozenset(f.value for f in fields if f.group == "features" and isinstance(f.value, int))


def _text(data: bytes) -> str:
    return safe(data)
