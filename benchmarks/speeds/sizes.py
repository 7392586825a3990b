"""How much is measured: enough to trust, or little enough to wait for."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Sizes:
    """Of all measurements; the defaults are those of the page."""

    quick: bool = False

    steps: int = 20
    """Training steps of the models that are timed: how fast one fills does not depend on them."""

    repeats: int = 3
    """Rounds in which everything that is compared takes its turn; the fastest of each counts."""

    series: int = 1000
    """Billiards series that nrtsi fills."""

    alone: int = 100
    """Of these, how many the paper's arrangement fills, one mask a batch."""

    shared: int = 128
    """And how many where 64 share a mask."""

    peers: dict[str, int] = field(
        default_factory=lambda: {"brits": 256, "saits": 256, "helix": 64, "csdi": 8}
    )
    """And how many each peer fills."""

    draws: int = 2
    """Drawings of questions, each with the steps that use it up, that training is timed for."""

    planned: int = 1000
    """Series of 1,000 points that are planned and filled."""

    timings: int = 30
    """Times each product of matrices is tried: the fastest is the peak."""

    trainings: int = 6
    """Times the same training is repeated; of each step the fastest counts."""

    points: tuple[int, ...] = (1_000, 10_000, 100_000, 1_000_000)
    """Lengths of a single series; growth is the last over the one before."""

    kinds: tuple[str, ...] = ("rows", "channels")
    """Where its gaps are."""

    starts: int = 7
    """Starts of a program."""


FULL = Sizes()
QUICK = Sizes(
    quick=True,
    steps=2,
    repeats=1,
    series=128,
    planned=48,
    timings=4,
    alone=8,
    shared=64,
    peers={"brits": 32, "saits": 32, "helix": 8, "csdi": 1},
    draws=1,
    trainings=1,
    points=(10_000, 100_000),
    kinds=("rows",),
    starts=1,
)
