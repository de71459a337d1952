"""The command line: a module for each command, and what commands share.

Begin with ``main``, which lists the commands, imports the one that is called, and turns errors into exit codes.
``analysis`` makes commands over a finished ledger (``streams``, ``flow``, ``check`` …) from a function; ``read`` is the
model of the others. ``reading`` runs over captures, pipes or an interface, ``tables`` makes rows of them; ``options``
defines shared options, ``grouped`` their groups in the help and their defaults; ``sink`` writes the output,
``terminal`` notes and errors, ``summary`` the account of all bytes; ``signals`` ends a run.

May import every other package, each only in the commands that need it, since commands have to start at once.
"""
