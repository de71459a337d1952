"""Damage captures of healthy connections, each way as a function of its packets and of chance."""

import random
from collections.abc import Callable
from dataclasses import replace

from dcpdump.net.packet import Packet
from tests.support.conversation import Said, said

Captured = list[Packet]
Damage = Callable[[Captured, random.Random], Captured]
_MS = 1_000_000
_TCP = 34  #: where TCP begins behind Ethernet and IPv4


def cut_front(captured: Captured, chance: random.Random) -> Captured:
    return captured[chance.randrange(1, len(captured)) :]


def cut_back(captured: Captured, chance: random.Random) -> Captured:
    return captured[: chance.randrange(1, len(captured))]


def cut_both(captured: Captured, chance: random.Random) -> Captured:
    first, last = sorted(chance.sample(range(len(captured) + 1), 2))
    return captured[first:last]


def losing(share: float) -> Damage:
    return lambda captured, chance: [each for each in captured if chance.random() >= share]


def disturbed(
    captured: Captured, chance: random.Random, *, loss: float, swap: float = 0.02, again: float = 0.0, cut: float = 0.0
) -> Captured:
    """Lose packets, exchange neighbours, capture some again instead of others, and cut some: each by a share."""
    out = [packet for packet in captured if chance.random() > loss]
    for at in range(len(out) - 1):
        here, there = out[at : at + 2]
        if chance.random() < swap:
            out[at : at + 2] = there._replace(ts_ns=here.ts_ns), here._replace(ts_ns=there.ts_ns)
        if chance.random() < again:
            out[at] = out[at + 1]
        if chance.random() < cut:
            out[at] = out[at]._replace(data=out[at].data[:100])
    return out


def losing_runs(length: int) -> Damage:
    def damage(captured: Captured, chance: random.Random) -> Captured:
        at = chance.randrange(len(captured))
        return captured[:at] + captured[at + length :]

    return damage


def losing_of_one_direction(share: float) -> Damage:
    def damage(captured: Captured, chance: random.Random) -> Captured:
        client = chance.random() < 0.5
        return [each for each in captured if by_client(each) is not client or chance.random() >= share]

    return damage


def duplicated(captured: Captured, chance: random.Random) -> Captured:
    return [each for packet in captured for each in (packet, packet)[: 1 + (chance.random() < 0.2)]]


def retransmitted(captured: Captured, chance: random.Random) -> Captured:
    """Capture some packets again a little later."""
    out = list(captured)
    for at in sorted(chance.sample(range(len(captured)), max(1, len(captured) // 10)), reverse=True):
        out.insert(min(len(out), at + chance.randrange(2, 9)), captured[at])
    return out


def swapped(reach: int) -> Damage:
    """Capture packets out of order, whatever their direction, by so many milliseconds at most."""
    return lambda captured, chance: sorted(captured, key=lambda each: _time(each) + chance.random() * reach * _MS)


def swapped_across(reach: int) -> Damage:
    """Capture the two directions out of order with each other; each by itself stays in order."""

    def damage(captured: Captured, chance: random.Random) -> Captured:
        order = [_time(each) + chance.random() * reach * _MS for each in captured]
        for client in (True, False):
            mine = [at for at, packet in enumerate(captured) if by_client(packet) is client]
            for at, place in zip(mine, sorted(order[at] for at in mine), strict=True):
                order[at] = place
        return [captured[at] for at in sorted(range(len(captured)), key=order.__getitem__)]

    return damage


def shifted(ms: int) -> Damage:
    """Shift the clock of one direction."""

    def damage(captured: Captured, chance: random.Random) -> Captured:
        late = chance.random() < 0.5
        moved = [each._replace(ts_ns=_time(each) + ms * _MS * (by_client(each) is late)) for each in captured]
        return sorted(moved, key=_time)

    return damage


def restamped(captured: Captured, chance: random.Random) -> Captured:
    """Give packets the times at which they were captured, in order, instead of those at which they were sent."""
    times = sorted(map(_time, captured))
    return [each._replace(ts_ns=ts_ns) for each, ts_ns in zip(captured, times, strict=True)]


def behind(captured: Captured, *, client: bool, by: int) -> Captured:
    """Capture what one side sends, but for the handshake, so many packets late, with the times of capture."""
    order = sorted(
        range(len(captured)), key=lambda at: at + (by + 0.5) * (at > 2 and by_client(captured[at]) is client)
    )
    return restamped([captured[at] for at in order], random.Random())


def one_direction(captured: Captured, chance: random.Random) -> Captured:
    client = chance.random() < 0.5
    return [each for each in captured if by_client(each) is client]


def truncated(length: int) -> Damage:
    return lambda captured, chance: [each._replace(data=each.data[:length]) for each in captured]


def faster(captured: Captured, chance: random.Random) -> Captured:
    """Let all be a thousand times faster than written."""
    first = _time(captured[0])
    return [each._replace(ts_ns=first + (_time(each) - first) // 1000) for each in captured]


def then(*several: Damage) -> Damage:
    """Damage in several ways, one after the other."""

    def damage(captured: Captured, chance: random.Random) -> Captured:
        for each in several:
            captured = each(captured, chance) or captured
        return captured

    return damage


WAYS: dict[str, Damage] = {
    "cut at the front": cut_front,
    "cut at the back": cut_back,
    "cut at both ends": cut_both,
    **{f"losing {share:.0%}": losing(share) for share in (0.01, 0.05, 0.2, 0.5)},
    **{f"losing a run of {length}": losing_runs(length) for length in (1, 2, 5, 20)},
    **{f"losing {share:.0%} of one direction": losing_of_one_direction(share) for share in (0.02, 0.1, 0.4)},
    "late and lossy": then(cut_front, losing(0.05)),
    "duplicated": duplicated,
    "retransmitted": retransmitted,
    **{f"swapped within {reach} ms": swapped(reach) for reach in (2, 4, 10, 20)},
    **{f"swapped across directions within {reach} ms": swapped_across(reach) for reach in (2, 5, 15, 40)},
    **{f"one direction shifted by {ms} ms": shifted(ms) for ms in (1, 3, 10, 30)},
    **{f"swapped across directions within {ms} ms, by another clock": then(swapped_across(ms), restamped)
       for ms in (5, 12)},
    "one direction": one_direction,
    **{f"truncated to {length}": truncated(length) for length in (54, 60, 78, 96, 110)},
    "faster": faster,
    "faster and swapped": then(swapped_across(10), faster),
    "late and shifted": then(cut_front, shifted(10)),
    "late and swapped": then(cut_front, swapped_across(10)),
    "shifted and lossy": then(shifted(5), losing(0.03)),
    "swapped and lossy": then(swapped(5), losing(0.03)),
    "duplicated and lossy": then(duplicated, losing(0.05)),
    "late and truncated": then(cut_front, truncated(90)),
    "one direction, late": then(one_direction, cut_front),
    "one direction, lossy": then(one_direction, losing(0.05)),
}  # fmt: skip


def by_client(packet: Packet) -> bool:
    """Return whether a packet goes to a server's port."""
    return packet.data[_TCP + 2 : _TCP + 4] == (11210).to_bytes(2, "big")


def _time(packet: Packet) -> int:
    return packet.ts_ns or 0


def merged(*texts: str) -> list[Said]:
    """Return several conversations as one, in the order of time."""
    out: list[Said] = []
    for text in texts:
        begin = 1 + max((each.connection for each in out), default=-1)
        mine = said(text)
        numbers = {old: begin + at for at, old in enumerate(dict.fromkeys(each.connection for each in mine))}
        out += [replace(each, connection=numbers[each.connection]) for each in mine]
    return sorted(out, key=lambda each: each.ts_ns)


def joined(frames: list[Said], size: int) -> list[Said]:
    """Put frames that one side sends within a second of one another together, up to so many bytes."""
    out: list[Said] = []
    for frame in frames:
        last = out[-1] if out else None
        alike = last and (last.connection, last.direction, last.flags) == (
            frame.connection,
            frame.direction,
            frame.flags,
        )
        if last and alike and frame.ts_ns - last.ts_ns < 1000 * _MS and len(last.data) + len(frame.data) <= size:
            out[-1] = replace(last, data=last.data + frame.data)
        else:
            out.append(frame)
    return out
