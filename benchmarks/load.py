"""How busy the machine was with other things while a benchmark ran."""

import os
import time

import psutil


class Load:
    """Counts from when it is made; as text, what came of it."""

    def __init__(self) -> None:
        self.began, self.stole = time.perf_counter(), psutil.cpu_times()
        self.first = os.getloadavg()[0]

    def __str__(self) -> str:
        now = psutil.cpu_times()
        stolen = getattr(now, "steal", 0.0) - getattr(self.stole, "steal", 0.0)
        return (
            f"{os.cpu_count()} cores; load average {self.first:.1f} before, "
            f"{os.getloadavg()[0]:.1f} after, own work included; "
            f"{stolen:.1f} CPU seconds stolen in {time.perf_counter() - self.began:.0f} s"
        )
