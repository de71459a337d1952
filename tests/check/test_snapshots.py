"""Snapshots and seqnos: how bad each fault is, what a conforming peer answers, and what is not a fault."""

from dcpdump.check.finding import Finding
from tests.support.check_cases import BOTH, DURABLE, EIGHT, FILTERED, MEMORY, PLAIN, STREAM, TAKEOVER, THREE, items
from tests.support.conversation import findings, findings_of, opening, packets, said

OSO = "RX oso-snapshot{flags=1}\nRX mutation{seqno=9}\nRX mutation{seqno=4}\nRX oso-snapshot{flags=2}\n"
ALLOWED = opening(controls="enable_out_of_order_snapshots=true")


def brief(found: list[Finding]) -> list[tuple[str, str, str]]:
    """Return rule, severity and status of findings."""
    return [(each.rule.code, each.severity.value, each.status) for each in found]


def seen(text: str) -> list[tuple[str, str, str]]:
    """Return rule, severity and status of what is found in a conversation."""
    return brief(findings(text))


# -- what markers say ---------------------------------------------------------------------------------------


def test_a_memory_snapshot_on_a_disk_only_stream_is_a_violation() -> None:
    text = PLAIN + "STREAM vb=5, flags=0x2\n"
    assert seen(text + "RX snapshot-marker{start=0, end=3, flags=0x6}\n" + items(1, 3)) == []
    assert seen(text + "RX snapshot-marker{start=0, end=3, flags=0x5}\n" + items(1, 3)) == [("DCP302", "violation", "")]


def test_the_first_memory_snapshot_behind_a_backfill_has_the_checkpoint_flag() -> None:
    text = PLAIN + STREAM + "RX snapshot-marker{start=0, end=3, flags=0x6}\n" + items(1, 3)
    later = "RX snapshot-marker{start=5, end=5, flags=0x1}\n" + items(5, 5)
    assert seen(text + "RX snapshot-marker{start=4, end=4, flags=0x5}\n" + items(4, 4) + later) == []
    assert seen(text + "RX snapshot-marker{start=4, end=4, flags=0x1}\n" + items(4, 4) + later) == [
        ("DCP302", "info", "")
    ]


def test_where_the_backfill_is_not_the_snapshot_before_for_certain_nothing_is_said_of_the_flag() -> None:
    text = PLAIN + STREAM + "RX snapshot-marker{start=0, end=3, flags=0x6}\n" + items(1, 3)
    text += "RX snapshot-marker{start=4, end=5, flags=0x5}\n" + items(4, 5)
    captured = packets(said(text + "RX snapshot-marker{start=6, end=6, flags=0x1}\n" + items(6, 6)))
    torn = captured[:-5] + captured[-2:]
    assert brief(findings_of(torn)) == []


def test_a_marker_of_version_2_1_is_for_disk_snapshots() -> None:
    marker = "RX snapshot-marker{start=0, end=3, flags=%s, layout=2.1}\n"
    assert seen(DURABLE + STREAM + marker % "0x6") == [("DCP303", "suspicious", "Einval")]
    assert seen(DURABLE + STREAM + marker % "0x5") == [("DCP302", "violation", ""), ("DCP303", "suspicious", "Einval")]


def test_a_server_takes_markers_of_other_released_versions_whatever_was_agreed_on() -> None:
    for layout in ("2.0", "2.2"):
        marker = f"RX snapshot-marker{{start=0, end=3, flags=0x6, layout={layout}}}\n"
        assert seen(PLAIN + STREAM + marker) == [("DCP303", "violation", "")]


def test_a_type_that_is_both_is_found_in_a_capture_that_begins_late() -> None:
    captured = packets(said(PLAIN + STREAM + "RX snapshot-marker{start=0, end=3, flags=0x7}\n"))
    assert ("DCP302", "violation", "") in brief(findings_of(captured[-1:]))


def test_a_marker_that_was_joined_late_can_be_read() -> None:
    captured = packets(said(PLAIN + STREAM + THREE + "RX snapshot-marker{start=4, end=6, flags=0x5}\n" + items(4, 6)))
    found = findings_of(captured[-8:])
    assert {each.rule.code for each in found} <= {"DCP223"}
    assert not any("could not be read" in each.reason for each in found)


# -- how they follow one another ----------------------------------------------------------------------------


def test_a_marker_that_runs_backwards_is_reported_as_that_alone() -> None:
    text = PLAIN + STREAM + THREE + "RX snapshot-marker{start=9, end=2, flags=0x1}\n"
    follows = "RX snapshot-marker{start=4, end=5, flags=0x1}\n" + items(4, 5)
    assert seen(text + follows) == [("DCP301", "violation", "Einval")]


def test_a_first_marker_below_the_requested_snapshot_breaks_replicas_and_may_mislead_others() -> None:
    first = "STREAM vb=5, start=7, snap-start-seqno=5, snap-end-seqno=9%s\n"
    first += "RX snapshot-marker{start=%d, end=9, flags=0x5}\n" + items(8, 9)
    node = opening(name="replication:n1")
    text = "the first snapshot starts at 4, requested was 5: "
    assert [(each.severity.value, each.message) for each in findings(node + first % ("", 4))] == [
        ("violation", text + "a replica that reconnects fails at it")
    ]
    assert [(each.severity.value, each.message) for each in findings(PLAIN + first % ("", 4))] == [
        ("suspicious", text + "the client's own snapshot began later")
    ]
    assert seen(node + first % ("", 5)) == []
    assert seen(PLAIN + first % (", flags=0x40", 4)) == []  # from latest: the server sets the numbers itself


def test_only_the_first_marker_of_a_stream_is_compared_with_its_request() -> None:
    begun = opening(name="replication:n1") + STREAM + "RX snapshot-marker{start=0, end=3, flags=0x6}\n" + items(1, 3)
    assert seen(begun + NEXT) == []
    ends = "RX stream-end{status=2}\nSTREAM vb=5, start=3\n"
    assert seen(begun + ends + "RX snapshot-marker{start=2, end=6, flags=0x5}\n") == [("DCP323", "violation", "")]


NEXT = "RX snapshot-marker{start=4, end=6, flags=0x5}\n"


def test_where_seqno_advanced_is_agreed_on_it_is_what_a_filtered_snapshot_misses() -> None:
    text = BOTH + FILTERED + MEMORY + EIGHT
    missing = "snapshot 1..3 came to 2: neither an item with seqno 3 nor SEQNO_ADVANCED came before the next"
    assert [(each.rule.code, each.message) for each in findings(text + NEXT)] == [("DCP313", missing)]
    assert seen(text + "RX seqno-advanced{seqno=3}\n" + NEXT) == []


def test_where_the_end_may_be_filtered_without_a_word_a_snapshot_is_not_unfinished() -> None:
    everything = "enable_sync_writes=true, consumer_name=n2, flatbuffers_system_events=true"
    quiet = opening(collections=True, name="replication:n1", controls=everything)
    disk = MEMORY.replace("0x5", "0x6")
    assert seen(PLAIN + STREAM + disk + items(1, 2) + NEXT) == []
    assert seen(PLAIN + STREAM + MEMORY + items(1, 2) + NEXT) == [("DCP313", "suspicious", "")]
    assert "DCP313" not in [code for code, *_ in seen(quiet + FILTERED + disk + EIGHT + NEXT)]
    assert seen(quiet + STREAM + MEMORY + EIGHT + NEXT) == [("DCP313", "suspicious", "")]


def test_a_snapshot_below_what_the_consumer_has_is_refused_one_that_ends_too_early_is_not() -> None:
    text = PLAIN + STREAM + "RX snapshot-marker{start=0, end=9, flags=0x5}\n" + items(1, 4)
    assert ("DCP310", "violation", "Erange") in seen(text + "RX snapshot-marker{start=1, end=3, flags=0x1}\n")
    assert ("DCP310", "violation", "") in seen(text + "RX snapshot-marker{start=5, end=7, flags=0x1}\n")


def test_snapshots_of_a_stream_that_may_be_of_a_replica_may_overlap_one_from_disk() -> None:
    text = "RX snapshot-marker{start=0, end=3, flags=%s}\n" + items(1, 3)
    text += "RX snapshot-marker{start=3, end=6, flags=0x5}\n" + items(4, 6)
    assert seen(PLAIN + STREAM + text % "0x6") == [("DCP309", "info", "")]
    assert seen(PLAIN + STREAM + text % "0x5") == [("DCP309", "suspicious", "")]
    assert seen(PLAIN + "STREAM vb=5, flags=0x10\n" + text % "0x6") == [("DCP309", "suspicious", "")]


def test_a_server_before_5_0_starts_each_backfill_where_the_requested_snapshot_starts() -> None:
    begun = PLAIN + "STREAM vb=5, flags=0x10, start=2, snap-start-seqno=1, snap-end-seqno=2\n"
    text = "RX snapshot-marker{start=1, end=4, flags=0x2}\n" + items(3, 4)
    text += "RX snapshot-marker{start=%d, end=6, flags=%s}\n" + items(5, 6)
    assert seen(begun + text % (1, "0x2")) == [("DCP309", "info", "")]
    assert seen(begun + text % (2, "0x2")) == [("DCP309", "suspicious", "")]
    assert seen(begun + text % (1, "0x6")) == [("DCP309", "suspicious", "")]


def test_an_overlap_behind_lost_bytes_is_judged_from_the_next_marker_on() -> None:
    text = PLAIN + STREAM + "RX snapshot-marker{start=0, end=3, flags=0x5}\n" + items(1, 3)
    text += "RX snapshot-marker{start=4, end=6, flags=0x1}\n" + items(4, 6)
    captured = packets(said(text + "RX snapshot-marker{start=6, end=8, flags=0x1}\n"))
    torn = [packet for packet in captured if packet.number != len(captured) - 6]
    assert ("DCP309", "suspicious", "") in brief(findings_of(torn))


# -- what is in them ----------------------------------------------------------------------------------------


def test_a_connection_without_collections_may_get_out_of_order_snapshots() -> None:
    assert seen(ALLOWED + STREAM + OSO) == []


def test_a_stream_of_the_whole_bucket_gets_no_out_of_order_snapshots() -> None:
    both = opening(collections=True, controls="enable_out_of_order_snapshots=true")
    oso = OSO.replace("seqno=9", "seqno=9, key=#0861").replace("seqno=4", "seqno=4, key=#0862")
    assert seen(both + STREAM + oso) == [("DCP318", "violation", "")]
    for chosen in ('{"scope":"8"}', '{"collections":["8","9"]}'):
        assert seen(both + f"STREAM vb=5, value={chosen}\n" + oso) == []


def test_a_key_twice_in_a_disk_snapshot_may_be_due_to_a_replica_as_the_source() -> None:
    marker = "RX snapshot-marker{start=0, end=3, flags=%s}\n"
    keys = "RX mutation{seqno=1, key=a}\nRX mutation{seqno=3, key=a}\n"
    assert seen(PLAIN + STREAM + marker % "0x6" + keys) == [("DCP317", "suspicious", "")]
    assert seen(PLAIN + STREAM + marker % "0x5" + keys) == [("DCP317", "violation", "")]
    assert seen(PLAIN + "STREAM vb=5, flags=0x10\n" + marker % "0x6" + keys) == [("DCP317", "violation", "")]


def test_no_acknowledgement_is_due_behind_an_answer_with_an_error() -> None:
    text = TAKEOVER + "RX snapshot-marker{start=0, end=1, flags=0xd}\nRX mutation{seqno=1}\n"
    refused = "TX snapshot-marker-response{erange, opaque=0x1005}\n"
    assert "DCP320" not in [each[0] for each in seen(text + refused + "WAIT 31\nRX stream-end{status=2}\n")]


def test_a_snapshot_that_was_not_acknowledged_is_found_with_its_vbucket() -> None:
    text = TAKEOVER + "RX snapshot-marker{start=0, end=1, flags=0xd}\nRX mutation{seqno=1}\nWAIT 31\n"
    found = [each for each in findings(text + "RX stream-end{status=2}\n") if each.rule.code == "DCP320"]
    assert [(each.severity.value, each.vbucket, each.frame) for each in found] == [("violation", 5, 14)]


# -- seqnos -------------------------------------------------------------------------------------------------


def test_what_is_refused_outside_a_snapshot_depends_on_the_message() -> None:
    outside = {
        "RX mutation{seqno=9}": "Erange",
        "RX prepare{seqno=9, key=b}": "Erange",
        "RX commit{prepared-seqno=1, commit-seqno=9, key=a}": "",
        "RX abort{prepared-seqno=1, abort-seqno=9, key=a}": "",
    }
    for message, status in outside.items():
        text = DURABLE + STREAM + MEMORY + "RX prepare{seqno=1, key=a}\n" + message + "\n"
        assert ("DCP401", "violation", status) in seen(text)


def test_commits_that_do_not_rise_are_refused_too() -> None:
    text = DURABLE + STREAM + MEMORY + "RX prepare{seqno=1, key=a}\nRX mutation{seqno=2}\n"
    assert seen(text + "RX commit{prepared-seqno=1, commit-seqno=2, key=a}\n") == [("DCP402", "violation", "Erange")]
    filtered = BOTH + 'STREAM vb=5, value={"collections":["8"]}\n' + MEMORY + "RX seqno-advanced{seqno=3}\n"
    assert seen(filtered + "RX seqno-advanced{seqno=3}\n") == [("DCP402", "violation", "")]


def test_a_decision_without_a_prepare_is_refused_by_its_kind() -> None:
    text = DURABLE + STREAM + MEMORY
    commit, abort = (f"RX {kind}{{prepared-seqno=1, {kind}-seqno=2, key=a}}\n" for kind in ("commit", "abort"))
    assert seen(text + commit) == [("DCP413", "suspicious", "KeyEnoent")]
    assert seen(text + abort) == [("DCP413", "suspicious", "Einval")]
    decided = "RX prepare{seqno=1, key=a}\n" + commit.replace("prepared-seqno=1", "prepared-seqno=2")
    assert ("DCP412", "violation", "") in seen(text + decided)


def test_an_acknowledged_seqno_closes_the_connection_or_is_refused() -> None:
    sent = STREAM + MEMORY + "RX prepare{seqno=1}\n"
    assert ("DCP416", "violation", "Einval") in seen(PLAIN + sent + "TX seqno-acknowledged{prepared-seqno=1}\n")
    assert ("DCP416", "violation", "") in seen(DURABLE + sent + "TX seqno-acknowledged{prepared-seqno=7}\n")
    back = "TX seqno-acknowledged{prepared-seqno=1}\nTX seqno-acknowledged{prepared-seqno=%d}\n"
    assert ("DCP416", "violation", "") in seen(DURABLE + sent + back % 0)
    assert seen(DURABLE + sent + back % 1) == []


def test_the_order_of_seqnos_behind_a_late_beginning_was_seen() -> None:
    text = PLAIN + STREAM + "RX snapshot-marker{start=0, end=9, flags=0x5}\n" + items(2, 2) + items(5, 9)
    captured = packets(said(text))
    assert "DCP402" not in [each[0] for each in brief(findings_of(captured[-6:]))]
    late = captured[-6:-3] + captured[-2:]
    assert ("DCP402", "unknown", "") in brief(findings_of(late))


def test_a_prepare_that_its_own_snapshot_completed_is_decided() -> None:
    text = DURABLE + STREAM + "RX snapshot-marker{start=0, end=3, flags=0x6, high-completed-seqno=2, layout=2.0}\n"
    text += "RX prepare{seqno=1, key=a}\nRX mutation{seqno=3}\n"
    text += "RX snapshot-marker{start=4, end=4, flags=0x5, layout=2.0}\nRX prepare{seqno=4, key=a}\n"
    assert seen(text) == []
