"""dcpdump on Spark: archives of captures become tables."""
