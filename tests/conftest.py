"""The same examples in every run: what Hypothesis draws must not decide whether a change may land.

``pytest --hypothesis-profile=default`` draws new ones.
"""

from hypothesis import settings

settings.register_profile("steady", derandomize=True, deadline=None)
settings.load_profile("steady")
