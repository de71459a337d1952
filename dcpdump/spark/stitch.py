"""Combine a saved connection before a split with what the split captured of it into the state after the split.

A guess is verified here, or refused: where the past was not what was guessed, nothing is combined, and the split has to
be surveyed again with the true past.
"""

from dcpdump.batch.resumable import SavedConnection
from dcpdump.net.bytestream import ByteStream, SenderValues, StreamState
from dcpdump.net.limits import Limits
from dcpdump.net.reassembly import Counters, SeenState
from dcpdump.net.tcp import distance
from dcpdump.spark.guess import Beginning
from dcpdump.spark.tail_state import LEFT, DirectionTail
from dcpdump.spark.work import Seam
from dcpdump.spec.header import HEADER_LENGTH
from dcpdump.wire.decode import decode
from dcpdump.wire.frame import RawFrame, Where, unpack_header
from dcpdump.wire.resync import framed
from dcpdump.wire.session import Session, SessionState
from dcpdump.wire.split import CUT, SEARCH, SplitterState, WhereState

_NEVER = -1


def stitched(before: SavedConnection | None, seam: Seam, limits: Limits) -> SavedConnection | None:
    """Return the state after a split, with the number that it had before; None where the split's guess was wrong.

    Not for what was surveyed with its true past: there the survey's own result counts.
    """
    saved = seam.saved
    if seam.guessed is None:
        if before is None or seam.syn is None:
            return saved
        key, isn = seam.syn
        stream = ByteStream(limits, Counters())
        stream.restore(before.streams[0 if key == before.key else 1])
        return None if stream.begins_with(isn) else saved
    if before is None:
        return None
    if seam.born:
        return saved
    turned = before.key != seam.guessed[0].key
    ends = seam.guessed[::-1] if turned else seam.guessed
    after = _turned(saved) if turned else saved
    found = _composed(before, ends, after, seam)
    return None if found is None else found._replace(streams=_with_senders(found.streams, before, after))


def _turned(saved: SavedConnection) -> SavedConnection:
    """Exchange the two directions of a saved connection."""
    ended = (saved.ended >> 1) | (saved.ended & 1) << 1
    return saved._replace(
        streams=saved.streams[::-1], splitters=saved.splitters[::-1], framed=saved.framed[::-1], ended=ended
    )


def _composed(
    before: SavedConnection, ends: tuple[Beginning, ...], after: SavedConnection, seam: Seam
) -> SavedConnection | None:
    streams: list[StreamState] = []
    splitters: list[SplitterState | None] = []
    straddling: list[tuple[int, RawFrame]] = []
    active = [_is_active(state) for state in after.streams]
    turned = before.key != (seam.guessed or ends)[0].key
    for way in (0, 1):
        old, new, end = before.streams[way], after.streams[way], ends[way]
        if not active[way]:
            stream = _after_ack(old, _acknowledged(old, new, end, ends[1 - way]))
            if stream is None:
                return None
            streams.append(stream)
            splitters.append(before.splitters[way])
            continue
        cut = before.splitters[way]
        if not _even(old, end) or cut is None or before.ended:
            return None
        streams.append({**_moved_stream(old, new), "last_ack": _acknowledged(old, new, end, ends[1 - way])})
        if cut["state"] == SEARCH and end.foreign:
            searched = _searched(cut, new["offset"], (seam.ends[::-1] if turned else seam.ends)[way])
            if searched is None or after.framed[way]:
                return None
            splitters.append(searched)
            continue
        if cut["foreign"] or end.foreign:
            if not (cut["foreign"] and end.foreign):
                return None
        elif cut["state"] != CUT or cut["holes"] or cut["confidence"] or cut["passing"] or not after.framed[way]:
            return None
        else:
            straddler = _straddler(cut, end)
            if straddler is False:
                return None
            if isinstance(straddler, RawFrame):
                straddling.append((way, straddler))
        ours = after.splitters[way]
        splitters.append(None if ours is None else _moved_splitter(ours, cut["offset"] + len(cut["data"])))
    if not any(active):
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
        thin=after.thin or (before.thin and not all(active)),
    )


def _with_senders(
    streams: tuple[StreamState, StreamState], before: SavedConnection, after: SavedConnection
) -> tuple[StreamState, StreamState]:
    """Return the streams with what is known of their senders: what the split does not show is from before."""
    old, new = ([each["sender"] for each in saved.streams] for saved in (before, after))
    goes_on = [after.streams[way]["offset"] > 0 or new[1 - way][0] >= 0 for way in (0, 1)]
    here, there = (_sender(old[way], new[way], answered=goes_on[way]) for way in (0, 1))
    return {**streams[0], "sender": here}, {**streams[1], "sender": there}


def _sender(old: SenderValues, new: SenderValues, *, answered: bool) -> SenderValues:
    shut = old[0] if new[0] < 0 else new[0]
    return (shut, *(new if new[1] or answered else old)[1:])


def recounted(seam: Seam, packets: dict[str, int]) -> Seam:
    """Return the seam with corrected packet numbers; ``packets``: by file, the earlier packets it did not count."""

    def seen(where: SeenState) -> SeenState:
        number, ts_ns, file, interface = where
        return number + packets.get(file, 0), ts_ns, file, interface

    def placed(where: WhereState) -> WhereState:
        number, ts_ns, file = where
        return number + packets.get(file, 0), ts_ns, file

    def recounted_stream(state: StreamState) -> StreamState:
        return {**state, "waiting": [(*each[:5], seen(each[5])) for each in state["waiting"]]}

    def recounted_splitter(state: SplitterState | None) -> SplitterState | None:
        return None if state is None else {**state, "marks": [(end, placed(where)) for end, where in state["marks"]]}

    def recounted_tail(tail: DirectionTail | None) -> DirectionTail | None:
        if tail is None:
            return None
        return tail._replace(marks=tuple((size, Where(*placed((*where,)))) for size, where in tail.marks))

    saved, (here, there) = seam.saved, seam.ends
    first, second = map(recounted_stream, saved.streams)
    one, other = map(recounted_splitter, saved.splitters)
    saved = saved._replace(streams=(first, second), splitters=(one, other))
    return seam._replace(saved=saved, ends=(recounted_tail(here), recounted_tail(there)))


def _is_active(state: StreamState) -> bool:
    """Return whether a direction has sent anything: payload, a FIN or a reset."""
    sent = state["offset"] or state["waiting"] or state["arrived"] or state["stray"]
    return bool(sent or state["fin"] or state["ended"] or state["reset_at"] is not None)


def _acknowledged(old: StreamState, new: StreamState, end: Beginning, other: Beginning) -> int:
    """Return the last ACK of a direction: the one before the split, if the split has none."""
    anew = new["last_ack"] != end.seq or other.first_ack is not None
    return new["last_ack"] if anew else old["last_ack"]


def _after_ack(old: StreamState, ack: int) -> StreamState | None:
    """Return a silent direction after the other one's ACK; None where the ACK changes more than that."""
    if ack in (_NEVER, old["last_ack"]):
        return old
    if old["ready"] < 0 and (old["base"] is not None or old["answers"] or old["first_ack"] is None):
        return None
    return {**old, "last_ack": ack}


def _even(old: StreamState, end: Beginning) -> bool:
    """Return whether nothing of a direction waits, and it continues exactly where it was."""
    return bool(
        old["ready"] >= 0
        and old["ready"] == end.seq
        and old["deadline"] is None
        and not old["waiting"]
        and (old["acked"] or 0) <= old["offset"]
        and old["last_ack"] != _NEVER
        and distance(old["ready"], old["last_ack"]) <= 0
    )


def _searched(cut: SplitterState, size: int, tail: DirectionTail | None) -> SplitterState | None:
    """Continue a search that finds no frame in ``size`` bytes: all but the last few are skipped."""
    if tail is None or len(tail.data) < LEFT or size <= LEFT or len(cut["data"]) > LEFT or cut["doubtful"]:
        return None
    end = cut["offset"] + len(cut["data"]) + size
    marks: list[tuple[int, WhereState]] = []
    at = end
    for length, where in reversed(tail.marks):
        marks.insert(0, (at, (*where,)))
        at -= length
    return {
        **cut,
        "data": tail.data,
        "offset": end - LEFT,
        "marks": marks,
        "lost": cut["lost"] + (0 if cut["joining"] else len(cut["data"]) + size - LEFT),
        "need": LEFT + 1,
        "segment": False,
    }


def _straddler(cut: SplitterState, end: Beginning) -> RawFrame | bool:
    """Return the frame that spans the beginning of the split; True: there is none; False: the guess cannot be right."""
    data = cut["data"]
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
    """Return a session after the frames that span the beginning of the split."""
    if not straddling:
        return session
    after = Session()
    after.restore(session)
    for way, raw in straddling:
        after.understand(decode(raw), 0, way)
    return after.state()


# -- offsets of a guess, counted from where the stream was --------------------------------------------------


def _moved_stream(old: StreamState, new: StreamState) -> StreamState:
    base, fin = old["offset"], new["fin"]
    acked = [old["acked"], None if new["acked"] is None else new["acked"] + base]
    return {
        **new,
        "offset": new["offset"] + base,
        "base": old["base"],
        "isn": old["isn"],
        "first_ack": old["first_ack"],
        "answers": old["answers"],
        "joined_late": old["joined_late"],
        "since": old["since"],
        "now": new["now"] or old["now"],
        "acked": max((each for each in acked if each is not None), default=None),
        "top": max(old["top"], new["top"] + base),
        "fin": None if fin is None else (fin[0] + base, *fin[1:]),
        "waiting": [
            (start + base, order, data, cut + base, since, seen)
            for start, order, data, cut, since, seen in new["waiting"]
        ],
    }


def _moved_splitter(new: SplitterState, base: int) -> SplitterState:
    return {
        **new,
        "offset": new["offset"] + base,
        "marks": [(end + base, where) for end, where in new["marks"]],
    }
