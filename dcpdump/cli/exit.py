"""Define the exit codes: a contract with scripts."""

DONE = 0
FINDINGS = 1  #: check: findings at or above --fail-on
USAGE = 2
UNUSABLE = 3  #: the input cannot be used
DAMAGED = 4  #: done, but the input was damaged or a limit was hit
UNWRITABLE = 5  #: the output could not be written
NO_CAPTURE = 6  #: no privilege to capture, or no such interface
BUG = 70
HUNG_UP = 129  #: the terminal was closed, as an ssh session that ends
INTERRUPTED = 130
PIPE_CLOSED = 141
TERMINATED = 143
