"""List the keys of the screen in one table, which binds them, which help prints, and whose keys tests press.

Keys have Textual's names; ``shown`` has them as people write them.
"""

from textual.binding import Binding

from dcpdump.browse.pane import Styled


def _key(keys: str, shown: str, action: str, text: str) -> Binding:
    return Binding(keys, action, text, show=False, key_display=shown, priority=True)


#: Title of a group → its keys, in the order of help.
KEYS: dict[str, tuple[Binding, ...]] = {
    "Move": (
        _key("up,k", "↑ k", "pane('move', -1)", "one up"),
        _key("down,j", "↓ j", "pane('move', 1)", "one down"),
        _key("pageup,ctrl+b", "PgUp ^B", "pane('page', -1)", "a screen up"),
        _key("pagedown,ctrl+f", "PgDn ^F", "pane('page', 1)", "a screen down"),
        _key("home,g", "Home g", "pane('edge', -1)", "to the first"),
        _key("end,G", "End G", "pane('edge', 1)", "to the last"),
        _key("left,h", "← h", "pane('aside', -1)", "a byte back in the bytes; elsewhere the text to the left"),
        _key("right,l", "→ l", "pane('aside', 1)", "a byte on in the bytes; elsewhere the text to the right"),
        _key(":", ":", "ask_position", "go to a frame, a time, +30s from the start, 40 %"),
        _key("tab", "Tab", "do('screen', 'turn', 1)", "the next pane"),
        _key("shift+tab", "⇧Tab", "do('screen', 'turn', -1)", "the previous pane"),
        _key("enter", "Enter", "do('pages', 'enter')", "in a tab: the frames of the row; in a dialogue: the frame"),
        _key("escape", "Esc", "step_back", "step back: a dialogue, a filter, a jump"),
        _key("alt+left", "Alt-←", "step_back", "the place before"),
        _key("alt+right", "Alt-→", "do('browser', 'step', 1)", "the place that Alt-← left"),
    ),
    "Jump": (
        _key("r", "r", "do('browser', 'answer')", "from a request to its response, and back"),
        _key("n", "n", "do('browser', 'next_of_stream', 1)", "the next frame of this stream"),
        _key("N", "N", "do('browser', 'next_of_stream', -1)", "the previous frame of this stream"),
        _key("s", "s", "do('browser', 'next_snapshot', 1)", "the next snapshot of this stream"),
        _key("S,x", "S x", "do('browser', 'next_snapshot', -1)", "the marker of its snapshot, or the one before"),
        _key("p", "p", "do('browser', 'search_rows', 1)", "the next row with a problem, a refusal or lost bytes"),
        _key("P", "P", "do('browser', 'search_rows', -1)", "the previous row with one"),
    ),
    "Choose": (
        _key("/", "/", "filter", "the filter: the options of read; ↑ its history, Tab completes"),
        _key("*", "*", "do('browser', 'filter_field', '')", "only frames with the value of the selected field"),
        _key("!", "!", "do('browser', 'filter_field', '!')", "no frames with the value of the selected field"),
        _key("f", "f", "do('browser', 'only', ('connection', 'vbucket'))", "only this stream"),
        _key("F", "F", "do('browser', 'only', ('connection',))", "only this connection"),
        _key("\\", "\\", "search", "search a text in what is listed, hiding nothing"),
        _key(".", ".", "do('browser', 'find', 1)", "the next row with that text"),
        _key("comma", ",", "do('browser', 'find', -1)", "the previous row with that text"),
    ),
    "Show": (
        _key("1", "1", "do('pages', 'open', 'frames')", "frames"),
        _key("2", "2", "do('pages', 'open', 'streams')", "streams, those in trouble first"),
        _key("3", "3", "do('pages', 'open', 'findings')", "findings: broken rules"),
        _key("4", "4", "do('pages', 'open', 'connections')", "connections"),
        _key("o", "o", "do('pages', 'sort')", "in a tab: sort by the next column"),
        _key("e", "e", "do('pages', 'explain')", "beside the frame: the rule that it breaks, or its message"),
        _key("d", "d", "do('pages', 'dialogue')", "the dialogue of this stream"),
        _key("z", "z", "do('screen', 'zoom')", "one pane over all, and back"),
        _key("t", "t", "do('screen', 'next_times')", "times: clock; since the start, the row above or the marked"),
        _key("v", "v", "do('browser', 'next_view')", "the bytes as on the wire, decompressed, as JSON"),
        _key("i", "i", "about", "what the capture is, and what of it is damaged"),
        _key("L", "L", "follow", "stay at the end; any move up stops that"),
    ),
    "Take along": (
        _key("m", "m", "do('marks', 'mark')", "mark the frame"),
        _key("u", "u", "do('marks', 'unmark')", "unmark the frame"),
        _key("M", "M", "do('marks', 'mark_range')", "mark all from the last marked frame to this one"),
        _key("'", "'", "do('marks', 'next')", "the next marked frame"),
        _key("w", "w", "do('marks', 'ask')", "write marked frames, else the listed: .pcapng, .ndjson, .csv, .txt"),
        _key("y", "y", "copy", "copy: the field, the bytes, the frame, the command line"),
    ),
    "Leave": (
        _key("?", "?", "help", "these keys"),
        _key("q,ctrl+c", "q ^C", "leave", "leave; marks are asked about once"),
        _key("ctrl+z", "^Z", "suspend_process", "to the background"),
    ),
}

#: The last line of the screen.
HINTS = ("/ filter", "r answer", "n N stream", "s snapshot", "d dialogue", "m mark", "w write", "? help", "q quit")


def all_keys() -> list[Binding]:
    """Return the rows of the table."""
    return [key for group in KEYS.values() for key in group]


def help_lines() -> list[list[Styled]]:
    """Return the table as lines: under the title of each group its keys, and what they do."""
    width = max(len(key.key_display or "") for key in all_keys())
    out: list[list[Styled]] = []
    for title, keys in KEYS.items():
        out += [*([[("", "")]] if out else []), [(f" {title}", "bold")]]
        out += [[(f"  {key.key_display:<{width}}  ", "cyan"), (key.description, "")] for key in keys]
    return out
