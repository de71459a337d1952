"""The pipeline: archives of captures become tables, on Spark or, where they are small, without it.

Only launch, rounds, source and watch know Spark; everything else is plain Python over the columnar engine, which
can be tested without a cluster.
"""
