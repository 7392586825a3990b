"""A simulated weather station with an unreliable logger: three coupled channels with gaps."""

import numpy as np
from jaxtyping import Bool, Float

__all__ = ["lost", "weather"]

CHANNELS = ("temperature", "humidity", "pressure")
"""Degrees Celsius, percent, hectopascals."""

DECIMALS = (1, 0, 1)
"""Decimal places that the logger records."""

START = np.datetime64("2024-03-01T00:00:00", "ms")

DAY = 24
"""Hours; the station reports once an hour."""


def weather(seed: int, *, days: int = 60) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Returns hourly columns `time`, `temperature`, `humidity`, `pressure` with gaps and complete.

    About a tenth of the cells is missing (NaN): single readings, outages of one sensor, and
    outages of the whole station, of a few hours up to a day and a half.

    >>> gappy, truth = weather(seed=0)
    >>> list(truth), truth["temperature"].size
    (['time', 'temperature', 'humidity', 'pressure'], 1440)
    """
    rng = np.random.default_rng(seed)
    hour = np.arange(days * DAY, dtype=np.float64)
    complete = _simulate(hour, rng)
    gone = lost(hour.size, len(CHANNELS), rng)
    time = START + hour.astype("timedelta64[h]")
    truth = {"time": time, **dict(zip(CHANNELS, complete.T, strict=True))}
    gaps = np.where(gone, np.nan, complete)
    return {"time": time, **dict(zip(CHANNELS, gaps.T, strict=True))}, truth


def _simulate(
    hour: Float[np.ndarray, " row"], rng: np.random.Generator
) -> Float[np.ndarray, "row channel"]:
    """Fronts move the pressure; pressure brings clear sky; clear sky widens the daily cycle."""
    front = _slow(hour.size, 22.0, rng)
    clear = 1 / (1 + np.exp(-1.5 * front))
    # Warmest at three in the afternoon, with a quick rise and a slow fall.
    phase = 2 * np.pi * (hour - 9.0) / DAY
    daily = np.sin(phase - 0.3 * np.sin(phase))
    season = 6.0 + 8.0 * hour / max(hour[-1], 1.0)
    mild = season + 2.5 * _slow(hour.size, 40.0, rng)
    air = mild + (2.0 + 4.5 * clear) * daily
    dew = mild - 5.5 - 2.5 * front + 0.8 * _slow(hour.size, 16.0, rng)
    tide = 0.6 * np.sin(4 * np.pi * (hour - 7.0) / DAY)
    noise = rng.normal(size=(hour.size, 3)) * [0.25, 1.2, 0.15]
    exact = np.column_stack([air, _humidity(air, dew), 1013.0 + 8.0 * front + tide]) + noise
    exact[:, 1] = np.clip(exact[:, 1], 8.0, 100.0)
    return np.column_stack([exact[:, c].round(digits) for c, digits in enumerate(DECIMALS)])


def _humidity(
    air: Float[np.ndarray, " row"], dew: Float[np.ndarray, " row"]
) -> Float[np.ndarray, " row"]:
    """Relative humidity by the Magnus formula; fog where the dew point reaches the air's."""
    low = np.minimum(dew, air)
    return 100 * np.exp(17.62 * low / (243.12 + low) - 17.62 * air / (243.12 + air))


def _slow(hours: int, scale: float, rng: np.random.Generator) -> Float[np.ndarray, " row"]:
    """A smooth random curve of mean 0 and variance 1 that changes over `scale` hours."""
    reach = int(3 * scale)
    kernel = np.exp(-0.5 * (np.arange(-reach, reach + 1) / scale) ** 2)
    noise = rng.normal(size=hours + 2 * reach)
    return np.convolve(noise, kernel / np.linalg.norm(kernel), mode="valid")


def lost(hours: int, channels: int, rng: np.random.Generator) -> Bool[np.ndarray, "row channel"]:
    """Draws the missing cells of a logger: single ones, and outages of one sensor or of all."""
    gone = rng.random((hours, channels)) < 0.02
    gone |= rng.random((hours, 1)) < 0.01
    for channel in range(channels):
        # One outage of this sensor every twelve days, one of the station every twenty.
        gone[:, channel] |= _outages(hours, hours // (12 * DAY) + 1, (4, 36), rng)
    gone |= _outages(hours, hours // (20 * DAY) + 1, (3, 24), rng)[:, None]
    return gone


def _outages(
    hours: int, count: int, length: tuple[int, int], rng: np.random.Generator
) -> Bool[np.ndarray, " row"]:
    """True in `count` intervals with log-uniform length, at random places."""
    down = np.zeros(hours, dtype=bool)
    for _ in range(count):
        size = int(np.exp(rng.uniform(np.log(length[0]), np.log(length[1] + 1))))
        begin = int(rng.integers(max(hours - size, 1)))
        down[begin : begin + size] = True
    return down
