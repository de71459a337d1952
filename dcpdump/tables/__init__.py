"""The tables of ``export`` and ``pipeline``: their schemas, the rows of all but ``frames``, the folder they fill."""
