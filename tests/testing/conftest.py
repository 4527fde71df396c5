"""Hypothesis draws the same examples every time, however slow the machine is."""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "testing",
    deadline=None,
    derandomize=True,
    max_examples=40,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("testing")
