"""`Competitor`: methods of PyPOTS, trained and applied under the terms of the benchmarks.

The networks and their losses are those of PyPOTS. Ours are the hidden cells, which every method
gets from the same rule, the budget, and the choice of the weights by the validation part. Nothing
is written to disk or printed, and the random state of the caller is left as it was.
"""

import contextlib
import io
import logging
import math
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from nrtsi.bench.datasets.dataset import Part
from nrtsi.bench.inputs import Batch, Inputs, both_ways, decayed, diffused, plain
from nrtsi.core.budget_clock import now
from nrtsi.core.scaling import Scaler
from nrtsi.errors import InputError, NotFittedError, TrainingError
from nrtsi.training.plan import Budget

__all__ = ["PEERS", "TINY", "Hide", "Competitor"]

log = logging.getLogger(__name__)

BATCH = 32
LEARNING_RATE = 1e-3

STRETCHES = 10
"""So many stretches of training make up the budget; a validation ends each, if time allows."""

DRAWS_OF_A_FILL = 10
"""Draws whose mean is the filling of a method that draws: the mean is best in squared error."""

Hide = Callable[[Part, np.random.Generator], Bool[np.ndarray, "series step dim"]]
"""Which of the observed cells of some series to hide."""


def _standard(train: Part) -> Scaler:
    return Scaler.fit(train.to_set())


def _unit_range(train: Part) -> Scaler:
    """Brings every channel to 0 … 1."""
    observed = np.isfinite(train.value)
    low = np.where(observed, train.value, np.inf).min(axis=(0, 1))
    high = np.where(observed, train.value, -np.inf).max(axis=(0, 1))
    spread = np.where(high > low, high - low, 1.0)
    return Scaler(np.where(np.isfinite(low), low, 0.0), np.where(np.isfinite(spread), spread, 1.0))


@dataclass(frozen=True)
class _Kind:
    """What sets one method apart."""

    model: str
    """Its class in PyPOTS."""

    inputs: Callable[[Batch], Inputs]
    sizes: Mapping[str, Any]
    scaler: Callable[[Part], Scaler] = _standard

    validated: int = 128
    """Series the weights are chosen by; fewer where a pass takes long."""

    draws: bool = False


_KINDS = {
    # Its authors use 108 units, tuned sizes in TSI-Bench are 64 to 1,024.
    "brits": _Kind("BRITS", both_ways, {"rnn_hidden_size": 128}),
    # TSI-Bench tunes it to 64 to 1,024 units. Its last layer is a sigmoid, so that it can give
    # nothing but 0 … 1, the range its authors scale to.
    "mrnn": _Kind("MRNN", both_ways, {"rnn_hidden_size": 128}, scaler=_unit_range),
    # As TSI-Bench tunes it for 13 channels.
    "grud": _Kind("GRUD", decayed, {"rnn_hidden_size": 128}),
    # SAITS-base of its paper.
    "saits": _Kind(
        "SAITS",
        plain,
        {
            "n_layers": 2,
            "d_model": 256,
            "n_heads": 4,
            "d_k": 64,
            "d_v": 64,
            "d_ffn": 128,
            "dropout": 0.1,
        },
    ),
    # Sizes in wide use for it; its authors' configuration for air quality has d_input_embed 64.
    "imputeformer": _Kind(
        "ImputeFormer",
        plain,
        {
            "n_layers": 3,
            "d_input_embed": 32,
            "d_learnable_embed": 96,
            "d_proj": 8,
            "d_ffn": 256,
            "n_temporal_heads": 4,
            "dropout": 0.1,
        },
        validated=32,
    ),
    # Smaller than the default of PyPOTS (d_model 256, 8 heads), which needs most of an hour for
    # an epoch on a core; its authors tune it to d_model 32, 2 heads, 3 layers for 13 channels.
    "helix": _Kind(
        "HELIX",
        plain,
        {
            "n_layers": 2,
            "d_model": 64,
            "n_heads": 4,
            "d_pe": 16,
            "d_feature_embed": 6,
            "dropout": 0.1,
        },
        validated=32,
    ),
    # The base configuration of its authors. A validation takes 50 passes, hence so few series.
    "csdi": _Kind(
        "CSDI",
        diffused,
        {
            "n_layers": 4,
            "n_heads": 8,
            "n_channels": 64,
            "d_time_embedding": 128,
            "d_feature_embedding": 16,
            "d_diffusion_embedding": 128,
            "n_diffusion_steps": 50,
        },
        validated=8,
        draws=True,
    ),
}

PEERS = tuple(_KINDS)
"""The names of the methods."""

TINY: dict[str, dict[str, int]] = {
    "brits": {"rnn_hidden_size": 4},
    "mrnn": {"rnn_hidden_size": 4},
    "grud": {"rnn_hidden_size": 4},
    "saits": {"n_layers": 1, "d_model": 8, "n_heads": 2, "d_k": 4, "d_v": 4, "d_ffn": 8},
    "imputeformer": {
        "n_layers": 1,
        "d_input_embed": 4,
        "d_learnable_embed": 4,
        "d_proj": 2,
        "d_ffn": 8,
        "n_temporal_heads": 2,
    },
    "helix": {"n_layers": 1, "d_model": 8, "n_heads": 2, "d_pe": 4, "d_feature_embed": 2},
    "csdi": {
        "n_layers": 1,
        "n_heads": 2,
        "n_channels": 8,
        "d_time_embedding": 8,
        "d_feature_embedding": 4,
        "d_diffusion_embedding": 8,
        "n_diffusion_steps": 3,
    },
}
"""Sizes too small to learn much: to find out in a moment whether everything runs."""


@dataclass(frozen=True)
class _Fitted:
    """A trained network, and how series are made ready for it."""

    network: nn.Module
    form: "_Form"


@dataclass(frozen=True)
class _Form:
    """How series become batches, as learnt from the training part."""

    scaler: Scaler
    shape: tuple[int, int]
    """Steps and channels of a series."""

    even: bool
    """Equally spaced times. Where they are not, time is one more channel, always observed."""

    origin: float
    """Earliest time."""

    unit: float
    """Mean step."""

    @classmethod
    def of(cls, train: Part, scaler: Callable[[Part], Scaler]) -> "_Form":
        even = train.even
        steps = np.diff(train.time, axis=1)
        unit = float(steps.mean()) if steps.size else 1.0
        origin = float(train.time.min())
        return cls(scaler(_with_time(train, even)), train.value.shape[1:], even, origin, unit)

    def batch(self, part: Part, hidden: Bool[np.ndarray, "series step dim"]) -> Batch:
        """Series with some of their observed cells hidden."""
        whole = _with_time(part, self.even)
        observed = np.isfinite(whole.value)
        asked = np.zeros_like(observed)
        asked[:, :, : hidden.shape[2]] = hidden & observed[:, :, : hidden.shape[2]]
        scaled = (whole.value - self.scaler.offset) / self.scaler.spread
        return Batch(
            time=_tensor(self._clock(part.time)),
            value=_tensor(np.where(observed, scaled, 0.0)),
            known=_tensor(observed & ~asked),
            asked=_tensor(asked),
        )

    def back(
        self, scaled: Float[np.ndarray, "... step feature"], part: Part
    ) -> Float[np.ndarray, "... step dim"]:
        """In the caller's units; observed cells are the caller's own."""
        return _keep(part, self.scaler.unscale(scaled)[..., : self.shape[1]])

    def _clock(self, moment: Float[np.ndarray, "series step"]) -> np.ndarray:
        if self.even:
            return np.broadcast_to(np.arange(moment.shape[1]), moment.shape)
        return (moment - self.origin) / self.unit


class Competitor:
    """A method of PyPOTS: `brits`, `mrnn`, `grud`, `saits`, `imputeformer`, `helix` or `csdi`.

    Given the same seed and the same number of steps it gives the same values. It computes on the
    processor, in batches of 32, with Adam at a learning rate of 0.001.
    """

    parameters: int = 0
    """Trained numbers; known after `fit`."""

    steps: int = 0
    """Steps of the optimizer that were made."""

    def __init__(self, name: str, *, seed: int = 0, **sizes: Any) -> None:
        """The sizes given replace the recommended ones.

        Raises:
            InputError: There is no such method or size, or PyPOTS is not installed.
        """
        if name not in _KINDS:
            raise InputError(f"peer must be one of {', '.join(PEERS)}, got {name!r}")
        self.name, self.seed, self._kind = name, seed, _KINDS[name]
        for size in sizes:
            if size not in self._kind.sizes:
                raise InputError(
                    f"{name} has no size {size!r}; it has {', '.join(self._kind.sizes)}"
                )
        if find_spec("pypots") is None:
            raise InputError(
                f'{name} needs PyPOTS, which is not installed; pip install "nrtsi[bench]"'
            )
        with _quiet():  # now, since it takes seconds that are not training
            import_module("pypots.imputation")
        self.sizes = {**self._kind.sizes, **sizes}
        self.gives_draws = self._kind.draws
        self._fitted: _Fitted | None = None

    def fit(self, train: Part, validation: Part, hide: Hide, budget: Budget) -> None:
        """Trains on `train` and keeps the weights that are best on `validation`.

        What `hide` hides is drawn anew for every batch of training and once for validation. At
        least one step is made, however few the seconds.

        Raises:
            InputError: `hide` hides nothing, the parts differ in shape, or the sizes do not fit.
            TrainingError: The method gave no finite values.
        """
        form = _Form.of(train, self._kind.scaler)
        self._check(validation, form)
        questions = self._questions(validation, hide, form)
        self.steps = 0
        with _seeded(self.seed):
            network = self._build(form)
            run = _Run(network, self._kind.inputs, questions, budget)
            rng = np.random.default_rng([self.seed, 2])
            try:
                for stretch in range(1, STRETCHES + 1):
                    while run.goes_on(stretch / STRETCHES):
                        part = _take(train, run.next_series(train.series, rng))
                        run.advance(form.batch(part, hide(part, rng)))
                    if run.due(last=stretch == STRETCHES):
                        run.validate(self.seed)
            except AssertionError as error:  # how PyPOTS puts it that values are not finite
                if not run.best:
                    raise TrainingError(f"{self.name} cannot be trained: {error}") from error
                log.warning("%s stopped learning after %d steps: %s", self.name, run.steps, error)
            finally:
                self.steps = run.steps
        if not run.best:
            raise TrainingError(f"{self.name} was wrong beyond all bounds at every validation")
        network.load_state_dict(run.best)
        self.parameters = sum(p.numel() for p in network.parameters() if p.requires_grad)
        self._fitted = _Fitted(network.eval(), form)

    def fill(self, given: Part) -> Float[np.ndarray, "series step dim"]:
        """A value for every cell; the observed ones as they were.

        Raises:
            InputError: The series are of another length, have other channels or uneven times.
        """
        if self.gives_draws:
            mean = self.draw(given, DRAWS_OF_A_FILL).mean(axis=0)
            return _keep(given, mean)  # ten times a number, divided by ten, can be another
        return self._apply(given, {})

    def draw(self, given: Part, draws: int) -> Float[np.ndarray, "draw series step dim"]:
        """So many fillings, each drawn from what the method thinks likely.

        Raises:
            InputError: The method gives no draws, or as in `fill`.
        """
        if not self.gives_draws:
            raise InputError(f"{self.name} gives no draws; use fill, or another method")
        if draws < 1:
            raise InputError(f"draws must be 1 or more, got {draws}")
        return self._apply(given, {"n_sampling_times": draws})

    def _apply(self, given: Part, options: Inputs) -> np.ndarray:
        if self._fitted is None:
            raise NotFittedError(f"{self.name} is not fitted; call fit first")
        form, network = self._fitted.form, self._fitted.network
        self._check(given, form)
        batch = form.batch(given, np.zeros(given.value.shape, dtype=bool))
        pieces = []
        with _seeded(self.seed), torch.no_grad():
            for piece in _pieces(batch):
                filled = network(self._kind.inputs(piece), **options)["imputation"]
                pieces.append(filled.double().numpy())
        filled = np.concatenate(pieces)
        return form.back(filled.swapaxes(0, 1) if self.gives_draws else filled, given)

    def _questions(self, validation: Part, hide: Hide, form: _Form) -> Batch:
        """The validation series with the cells to tell; the same at every validation."""
        rng = np.random.default_rng([self.seed, 1])
        count = min(self._kind.validated, validation.series)
        some = _take(validation, np.sort(rng.permutation(validation.series)[:count]))
        questions = form.batch(some, hide(some, rng))
        if not questions.asked.any():
            raise InputError(
                "hide must hide some observed cell of the validation part, got none; "
                "hide more, or give more series"
            )
        return questions

    def _build(self, form: _Form) -> nn.Module:
        """A new network; PyPOTS must take the sizes as they are, and not mend them."""
        steps, channels = form.shape
        features = channels if form.even else channels + 1
        with _quiet():
            model = getattr(import_module("pypots.imputation"), self._kind.model)
            built = model(n_steps=steps, n_features=features, device="cpu", **self.sizes)
        for size, value in self.sizes.items():
            if getattr(built, size, value) != value:
                raise InputError(
                    f"{self.name} cannot have {size} {value} with its other sizes; "
                    f"give {getattr(built, size)}"
                )
        return built.model

    def _check(self, part: Part, form: _Form) -> None:
        if part.value.shape[1:] != form.shape:
            steps, channels = part.value.shape[1:]
            raise InputError(
                f"{self.name} learns series of {form.shape[0]} steps and {form.shape[1]} channels"
                f" and can fill no others, got {steps} steps and {channels} channels;"
                f" cut the series alike"
            )
        if form.even and not part.even:
            raise InputError(
                f"{self.name} learnt series with equally spaced times and can fill no others;"
                f" fit it to series with such times as these"
            )


@dataclass
class _Run:
    """A network being trained."""

    network: nn.Module
    inputs: Callable[[Batch], Inputs]
    questions: Batch
    budget: Budget
    steps: int = 0
    validated: int = -1
    """Steps made at the last validation."""

    cost: float = 0.0
    """Seconds of the last validation; so many are kept for the next."""

    validating: float = 0.0
    """Seconds of all validations."""

    least: float = math.inf
    best: dict[str, Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.begun = now()
        self.optimizer = torch.optim.Adam(self.network.parameters(), lr=LEARNING_RATE)
        self._order: list[int] = []

    def goes_on(self, share: float) -> bool:
        """True until this share of the budget is used up, but for a first step at the least."""
        if self.budget.steps is None and self.steps == 0:
            return True
        return self.budget.fraction(self.steps, self.seconds + self.cost) < share

    def due(self, *, last: bool) -> bool:
        """False where validations have taken more than a tenth of the time, but for the last.

        Steps are counted and not timed: there every validation is made, on any machine.
        """
        if self.budget.steps is not None or last or not self.best:
            return True
        return self.validating <= self.seconds / 10

    @property
    def seconds(self) -> float:
        """Since training began."""
        return now() - self.begun

    def next_series(self, series: int, rng: np.random.Generator) -> np.ndarray:
        """The next batch of an endless shuffling; every series comes once in a round."""
        if not self._order:
            self._order = rng.permutation(series).tolist()
        batch, self._order = self._order[:BATCH], self._order[BATCH:]
        return np.array(batch)

    def advance(self, batch: Batch) -> None:
        """One step of the optimizer."""
        self.network.train()
        self.optimizer.zero_grad()
        self.network(self.inputs(batch), calc_criterion=True)["loss"].sum().backward()
        self.optimizer.step()
        self.steps += 1

    def validate(self, seed: int) -> None:
        """Keeps the weights if they are the best so far; nothing to do where they are the same."""
        if self.steps == self.validated:
            return
        self.validated = self.steps
        begun = self.seconds
        self.network.eval()
        total = 0.0
        # The noise is the same every time, and leaves that of the training steps as it was.
        with _seeded(seed), torch.no_grad():
            for piece in _pieces(self.questions):
                metric = self.network(self.inputs(piece), calc_criterion=True)["metric"]
                total += float(metric.sum()) * float(piece.asked.sum())
        if total < self.least:
            self.least = total
            self.best = {name: t.clone() for name, t in self.network.state_dict().items()}
        self.cost = self.seconds - begun
        self.validating += self.cost


def _with_time(part: Part, even: bool) -> Part:
    if even:
        return part
    return Part(part.time, np.concatenate([part.value, part.time[:, :, None]], axis=2))


def _keep(
    part: Part, value: Float[np.ndarray, "*draw series step dim"]
) -> Float[np.ndarray, "*draw series step dim"]:
    """The values, but where a cell is observed."""
    return np.where(np.isfinite(part.value), part.value, value)


def _take(part: Part, which: np.ndarray) -> Part:
    return Part(part.time[which], part.value[which])


def _tensor(array: np.ndarray) -> Tensor:
    return torch.from_numpy(array.astype(np.float32))


def _pieces(batch: Batch) -> Iterator[Batch]:
    for begin in range(0, batch.value.shape[0], BATCH):
        piece = slice(begin, begin + BATCH)
        yield Batch(batch.time[piece], batch.value[piece], batch.known[piece], batch.asked[piece])


@contextlib.contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """PyPOTS draws from torch's global generator: seeded inside, given back as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """No banner on import, no log of PyPOTS, no warnings out of its code."""
    log = logging.getLogger("PyPOTS running log")
    disabled, log.disabled = log.disabled, True
    nowhere = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")  # the banner asks for the encoding
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(nowhere):
            warnings.simplefilter("ignore")
            yield
    finally:
        log.disabled = disabled
