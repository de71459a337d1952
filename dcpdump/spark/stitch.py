"""Stitching: the life of a connection before a split and what a split saw of it → its life after the split.

A guess is proved here, or refused: where the past was not what it was taken for, nothing is composed, and the
split has to be looked at again with the true past.
"""

from typing import Any

from dcpdump.net.balance import Balance
from dcpdump.net.limits import Limits
from dcpdump.net.seqnum import distance
from dcpdump.spark.life import Life, Slots, stream_of
from dcpdump.spark.look import Beginning
from dcpdump.spark.tail import LEFT, Tail
from dcpdump.spark.work import Seam
from dcpdump.spec.header import HEADER_LENGTH
from dcpdump.wire.decode import decode
from dcpdump.wire.frame import RawFrame, unpack_header
from dcpdump.wire.resync import framed
from dcpdump.wire.session import Session, SessionState

_NEVER = -1


def stitched(before: Life | None, seam: Seam, limits: Limits) -> Life | None:
    """It gives the life after a split, with the number that it had before; None where the split's guess was wrong.

    Not asked of what was surveyed with its true past: there the split's own word counts.
    """
    life = seam.life
    if seam.guessed is None:
        if before is None or seam.syn is None:
            return life
        key, isn = seam.syn
        stream = stream_of(before.streams[0 if key == before.key else 1], limits, Balance())
        return None if stream.begins_with(isn) else life
    if before is None:
        return None
    if seam.born:
        return life
    turned = before.key != seam.guessed[0].key
    ends = seam.guessed[::-1] if turned else seam.guessed
    after = _turned(life) if turned else life
    return _composed(before, ends, after, seam)


def _turned(life: Life) -> Life:
    """It exchanges the two directions of a life."""
    ended = (life.ended >> 1) | (life.ended & 1) << 1
    return life._replace(
        streams=life.streams[::-1], splitters=life.splitters[::-1], framed=life.framed[::-1], ended=ended
    )


def _composed(before: Life, ends: tuple[Beginning, ...], after: Life, seam: Seam) -> Life | None:
    streams: list[Slots] = []
    splitters: list[Slots | None] = []
    straddling: list[tuple[int, RawFrame]] = []
    loud = [_loud(slots) for slots in after.streams]
    turned = before.key != (seam.guessed or ends)[0].key
    for way in (0, 1):
        old, new, end = before.streams[way], after.streams[way], ends[way]
        if not loud[way]:
            stream = _listened(old, _heard_of(old, new, end, ends[1 - way]))
            if stream is None:
                return None
            streams.append(stream)
            splitters.append(before.splitters[way])
            continue
        cut = before.splitters[way]
        if not _even(old, end) or cut is None or before.ended:
            return None
        streams.append({**_moved_stream(old, new), "last_ack": _heard_of(old, new, end, ends[1 - way])})
        if cut["state"] == "_search" and end.foreign:
            searched = _searched(cut, new["offset"], (seam.ends[::-1] if turned else seam.ends)[way])
            if searched is None or after.framed[way]:
                return None
            splitters.append(searched)
            continue
        if cut["foreign"] or end.foreign:
            if not (cut["foreign"] and end.foreign):
                return None
        elif not _in_step(cut) or not after.framed[way]:
            return None
        else:
            straddler = _straddler(cut, end)
            if straddler is False:
                return None
            if isinstance(straddler, RawFrame):
                straddling.append((way, straddler))
        ours = after.splitters[way]
        splitters.append(None if ours is None else _moved_splitter(ours, cut["_offset"] + len(cut["_data"])))
    if not any(loud):
        return before._replace(streams=(streams[0], streams[1]))
    if after.session is None or seam.effects is None:  # both directions ended
        return before._replace(
            streams=(streams[0], streams[1]), splitters=(None, None), session=None, framed=(False, False), ended=0
        )
    if before.session is None:
        return None
    effects = seam.effects.turned() if turned else seam.effects
    session = effects.upon(_understood(before.session, straddling))
    if session is None:
        return None
    return before._replace(
        streams=(streams[0], streams[1]),
        splitters=(splitters[0], splitters[1]),
        session=session,
        framed=(before.framed[0] or after.framed[0], before.framed[1] or after.framed[1]),
        ended=after.ended,
        thin=after.thin or (before.thin and not all(loud)),
    )


def recounted(seam: Seam, packets: dict[str, int]) -> Seam:
    """It corrects the numbers of packets, of which some files have had more before than were counted."""

    def seen(where: Any) -> Any:
        return where._replace(**{where._fields[0]: where[0] + packets.get(where.file, 0)})

    life = seam.life
    streams = [
        {**slots, "waiting": [(*rest, seen(where)) for *rest, where in slots["waiting"]]} for slots in life.streams
    ]
    splitters = [
        None if slots is None else {**slots, "_marks": [(end, seen(where)) for end, where in slots["_marks"]]}
        for slots in life.splitters
    ]
    ends = [
        None if tail is None else tail._replace(marks=tuple((size, seen(where)) for size, where in tail.marks))
        for tail in seam.ends
    ]
    life = life._replace(streams=(streams[0], streams[1]), splitters=(splitters[0], splitters[1]))
    return seam._replace(life=life, ends=(ends[0], ends[1]))


def _loud(slots: Slots) -> bool:
    """Whether a direction has said anything but what it received."""
    said = slots["offset"] or slots["waiting"] or slots["_arrived"] or slots["_stray"]
    return bool(said or slots["_fin"] or slots["_ended"] or slots["_reset_at"] is not None)


def _heard_of(old: Slots, new: Slots, end: Beginning, other: Beginning) -> int:
    """It gives what was last acknowledged: before the split, if nothing was in it."""
    told = new["last_ack"] != end.seq or other.first_ack is not None
    ack: int = new["last_ack"] if told else old["last_ack"]
    return ack


def _listened(old: Slots, ack: int) -> Slots | None:
    """It lets a silent direction hear what the other one acknowledged."""
    if ack in (_NEVER, old["last_ack"]):
        return old
    if old["_ready"] < 0 and (old["_base"] is not None or old["answers"] or old["_first_ack"] is None):
        return None
    return {**old, "last_ack": ack}


def _even(old: Slots, end: Beginning) -> bool:
    """Whether nothing of a direction waits, and it goes on just where it was."""
    return bool(
        old["_ready"] >= 0
        and old["_ready"] == end.seq
        and old["deadline"] is None
        and not old["waiting"]
        and (old["_acked"] or 0) <= old["offset"]
        and old["last_ack"] != _NEVER
        and distance(old["_ready"], old["last_ack"]) <= 0
    )


def _searched(cut: Slots, size: int, tail: Tail | None) -> Slots | None:
    """It goes on with a search that finds nothing in ``size`` bytes: all but the last few are passed by."""
    if tail is None or len(tail.data) < LEFT or size <= LEFT or len(cut["_data"]) > LEFT or cut["_doubtful"]:
        return None
    end = cut["_offset"] + len(cut["_data"]) + size
    marks: list[tuple[int, Any]] = []
    at = end
    for length, where in reversed(tail.marks):
        marks.insert(0, (at, where))
        at -= length
    return {
        **cut,
        "_data": tail.data,
        "_offset": end - LEFT,
        "_marks": marks,
        "_lost": cut["_lost"] + len(cut["_data"]) + size - LEFT,
        "_need": LEFT + 1,
        "_segment": False,
    }


def _in_step(cut: Slots) -> bool:
    return cut["state"] == "_cut" and not (cut["_holes"] or cut["_confidence"] or cut["_passing"])


def _straddler(cut: Slots, end: Beginning) -> RawFrame | bool:
    """It gives the frame that lies across the beginning of the split; True: there is none; False: it cannot be."""
    data = cut["_data"]
    if not data:
        return end.rest == 0
    whole = data + end.head
    if not end.rest or len(whole) < HEADER_LENGTH:
        return False
    header = unpack_header(whole)
    if not framed(header) or header.frame_length - len(data) != end.rest:
        return False
    return RawFrame(whole[: header.frame_length], header)


def _understood(session: SessionState, straddling: list[tuple[int, RawFrame]]) -> SessionState:
    """Return a session after the frames that lie across the beginning of the split."""
    if not straddling:
        return session
    after = Session()
    after.restore(session)
    for way, raw in straddling:
        after.understand(decode(raw), 0, way)
    return after.state()


# -- a guess's own numbers, counted from where the stream was -----------------------------------------------


def _moved_stream(old: Slots, new: Slots) -> Slots:
    base = old["offset"]

    def moved(offset: Any) -> Any:
        return None if offset is None else offset + base

    acked = [each for each in (old["_acked"], moved(new["_acked"])) if each is not None]
    return {
        **new,
        "offset": new["offset"] + base,
        "_base": old["_base"],
        "_isn": old["_isn"],
        "_first_ack": old["_first_ack"],
        "answers": old["answers"],
        "joined_late": old["joined_late"],
        "_since": old["_since"],
        "_now": new["_now"] or old["_now"],
        "_acked": max(acked) if acked else None,
        "_top": max(old["_top"], new["_top"] + base),
        "_fin": None if new["_fin"] is None else new["_fin"]._replace(offset=new["_fin"].offset + base),
        "waiting": [
            (start + base, order, data, cut + base, *rest) for start, order, data, cut, *rest in new["waiting"]
        ],
        "at": {start + base: held for start, held in new["at"].items()},
    }


def _moved_splitter(new: Slots, base: int) -> Slots:
    return {
        **new,
        "_offset": new["_offset"] + base,
        "_marks": [(end + base, where) for end, where in new["_marks"]],
    }
