"""Write chosen frames, where a filter of opcodes or vbuckets leaves few of them.

The modules for columns are only imported when many frames of a block are chosen.
"""

from typing import TYPE_CHECKING, Union

from dcpdump.batch.dissector import Picked
from dcpdump.cli.choosing_consumer import ChoosingConsumer
from dcpdump.cli.options import Display, Selection
from dcpdump.cli.sink import Sink
from dcpdump.render import OUTPUTS, View
from dcpdump.render.style import Palette

if TYPE_CHECKING:
    from dcpdump.batch.part import Part
    from dcpdump.cli.frame_output import FrameOutput


class PickedFrameOutput(ChoosingConsumer[Union[Picked, "Part"]]):
    """A consumer that writes chosen frames. ``several``: there are several captures; ``jobs``: how many processes to
    use.
    """

    def __init__(self, chosen: Selection, shown: Display, sink: Sink, *, several: bool = False, jobs: int = 1) -> None:
        super().__init__(chosen, shown)
        self._shown, self._sink, self._several, self._jobs = shown, sink, several, jobs
        self._output = OUTPUTS[shown.format]
        self._view = View(shown.value_bytes, Palette(shown.coloured(sink.is_terminal)), file=several, times=shown.times)
        self._many: FrameOutput | None = None  # writes frames where there are many

    def begin(self) -> None:
        """Write the header."""
        if self._output.header is not None:
            self._sink.write(self._output.header())

    def take(self, pieces: "list[Picked | Part]") -> bool:
        """Write what is chosen; return whether there are enough."""
        return any(self._take(piece) for piece in pieces)

    def settle(self, *, idle: bool) -> None:
        """Write what there is; while the input is idle, all that is pending too."""
        if idle:
            self.finish()
        self._sink.flush()

    def finish(self) -> None:
        """Write what is pending."""
        if self._many is not None:
            self._many.finish()
        self._sink.flush()

    def close(self) -> None:
        """End the workers."""
        if self._many is not None:
            self._many.frames = self.frames
            self._many.close()
            self.frames = self._many.frames  # without what was pending

    @property
    def _enough(self) -> bool:
        return self.frames == self._chosen.count

    def _take(self, piece: "Picked | Part") -> bool:
        if not isinstance(piece, Picked):
            many = self._writing()
            many.frames = self.frames
            many.take([piece])
            self.frames = many.frames
            return self._enough
        if self._many is not None:
            self._many.finish()  # these frames must not overtake the pending ones
        for record in piece.records:
            if self._chosen.accepts(record):
                self._sink.write(self._output.write(self._shown.shown(record), self._view))
                self.frames += 1
                if self._enough:
                    return True
        return False

    def _writing(self) -> "FrameOutput":
        if self._many is None:
            from dcpdump.cli.frame_output import FrameOutput

            self._many = FrameOutput(self._chosen, self._shown, self._sink, several=self._several, jobs=self._jobs)
        return self._many
