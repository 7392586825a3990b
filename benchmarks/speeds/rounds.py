"""Timing on a machine that has other things to do.

What is compared takes turns, so that a slow minute is a slow minute for all.
"""

from collections.abc import Callable, Mapping

from nrtsi.bench.meter import Meter

Work = Callable[[], object]


def rounds(works: Mapping[str, Work], repeats: int) -> dict[str, list[Meter]]:
    """Seconds and memory of each work, in each of the rounds."""
    meters: dict[str, list[Meter]] = {name: [] for name in works}
    for _ in range(repeats):
        for name, work in works.items():
            with Meter() as meter:
                work()
            meters[name].append(meter)
    return meters


def fastest(meters: list[Meter]) -> float:
    """Seconds of the fastest round: whatever else the machine does can only add to them."""
    return min(meter.seconds for meter in meters)


def most_mib(meters: list[Meter]) -> float | None:
    """The most memory a round took; None where the system does not tell."""
    return max((m.peak_mib for m in meters if m.peak_mib is not None), default=None)
