"""`Competitor`: methods of PyPOTS, trained and applied under the terms of the benchmarks.

The networks and their losses are those of PyPOTS. The benchmark sets the hidden cells, which are
the same for every method, the budget, and the selection of weights on the validation part. Nothing
is written to disk or printed, and the random state of the caller is left unchanged.
"""

import contextlib
import io
import logging
import math
import tomllib
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from importlib.resources import files
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from pydantic import BaseModel, ConfigDict
from torch import Tensor, nn

from nrtsi.bench.competitor_inputs import INPUTS, InputBatch, Inputs
from nrtsi.bench.datasets.dataset import Part
from nrtsi.core.budget_clock import now
from nrtsi.core.scaling import Scaler
from nrtsi.errors import InputError, TrainingError
from nrtsi.training.settings import Budget

__all__ = ["COMPETITORS", "QUICK_SIZES", "Competitor", "CompetitorTraining", "Hide"]

log = logging.getLogger(__name__)

Hide = Callable[[Part, np.random.Generator], Bool[np.ndarray, "series step dim"]]
"""Draws which of the observed cells of some series to hide."""


class _Spec(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class CompetitorTraining(_Spec):
    """How all competitors are trained; the optimizer is Adam."""

    batch: int
    learning_rate: float
    validations: int
    draws: int


class _Kind(_Spec):
    """What distinguishes one method."""

    model: str
    """Its class in PyPOTS."""

    inputs: str
    sizes: dict[str, int | float]
    quick: dict[str, int]

    unit_range: bool = False
    """Scale each channel to 0 … 1 instead of standardising it."""

    validation_series: int = 128
    """Validation series; fewer if a pass takes long."""

    draws: bool = False


_SPEC = tomllib.loads(files("nrtsi.bench").joinpath("competitors.toml").read_text("utf-8"))
TRAINING = CompetitorTraining(**_SPEC.pop("training"))
KINDS = {name: _Kind(**spec) for name, spec in _SPEC.items()}

COMPETITORS = tuple(KINDS)
"""The names of the methods."""

QUICK_SIZES = {name: kind.quick for name, kind in KINDS.items()}


@dataclass(frozen=True)
class _Preparation:
    """How series become batches, as fitted to the training part."""

    scaler: Scaler
    shape: tuple[int, int]
    """Steps and channels of a series."""

    even: bool
    """Equally spaced times. If they are not, time is one more channel, always observed."""

    origin: float
    """Earliest time."""

    unit: float
    """Mean step."""

    @classmethod
    def fit(cls, train: Part, *, unit_range: bool) -> "_Preparation":
        even = train.even
        steps = np.diff(train.time, axis=1)
        unit = float(steps.mean()) if steps.size else 1.0
        whole = _with_time(train, even)
        scaler = _unit_range(whole) if unit_range else Scaler.fit(whole.to_set())
        return cls(scaler, train.value.shape[1:], even, float(train.time.min()), unit)

    def batch(self, part: Part, hidden: Bool[np.ndarray, "series step dim"]) -> InputBatch:
        """Makes a batch of series with some of their observed cells hidden."""
        whole = _with_time(part, self.even)
        observed = np.isfinite(whole.value)
        target = np.zeros_like(observed)
        target[:, :, : hidden.shape[2]] = hidden & observed[:, :, : hidden.shape[2]]
        scaled = (whole.value - self.scaler.offset) / self.scaler.spread
        time = (part.time - self.origin) / self.unit
        if self.even:
            time = np.broadcast_to(np.arange(time.shape[1]), time.shape)
        arrays = time, np.where(observed, scaled, 0.0), observed & ~target, target
        return InputBatch(*(torch.from_numpy(array.astype(np.float32)) for array in arrays))

    def unscale(
        self, scaled: Float[np.ndarray, "... step feature"], part: Part
    ) -> Float[np.ndarray, "... step dim"]:
        """Returns values in the caller's units; observed cells keep theirs."""
        return _keep_observed(part, self.scaler.unscale(scaled)[..., : self.shape[1]])


class Competitor:
    """A method of PyPOTS: `brits`, `mrnn`, `grud`, `saits`, `imputeformer`, `helix` or `csdi`.

    The same seed and number of steps give the same values. It runs on the CPU.
    """

    parameters: int = 0
    """Number of trained parameters; known after `fit`."""

    steps: int = 0
    """Optimizer steps that were made."""

    network: nn.Module

    def __init__(
        self, name: str, *, seed: int = 0, training: CompetitorTraining = TRAINING, **sizes: Any
    ) -> None:
        """The sizes given replace the recommended ones."""
        self.name, self.seed, self.training, self.kind = name, seed, training, KINDS[name]
        for size in set(sizes) - set(self.kind.sizes):
            raise InputError(f"{name} has no size {size!r}; it has {', '.join(self.kind.sizes)}")
        if find_spec("pypots") is None:
            raise InputError(
                f'{name} needs PyPOTS, which is not installed; pip install "nrtsi[bench]"'
            )
        with quiet():  # here, because the import takes seconds that are not training
            import_module("pypots.imputation")
        self.sizes: Mapping[str, Any] = {**self.kind.sizes, **sizes}
        self.draws = self.kind.draws
        self.inputs = INPUTS[self.kind.inputs]

    def fit(self, train: Part, validation: Part, hide: Hide, budget: Budget) -> None:
        """Trains on `train` and keeps the weights that are best on `validation`.

        `hide` is called for every training batch and once for validation. At least one step is
        made, however short the budget.
        """
        self.preparation = _Preparation.fit(train, unit_range=self.kind.unit_range)
        held_out = self._validation_batch(validation, hide)
        self.steps = 0
        with _seeded(self.seed):
            network = self._build()
            run = CompetitorRun(network, self.inputs, held_out, budget, self.training)
            rng = np.random.default_rng([self.seed, 2])
            try:
                for turn in range(1, self.training.validations + 1):
                    while run.continues(turn / self.training.validations):
                        part = train.take(run.next_series(train.series, rng))
                        run.advance(self.preparation.batch(part, hide(part, rng)))
                    if run.due(last=turn == self.training.validations):
                        run.validate(self.seed)
            except AssertionError as error:  # raised by PyPOTS if values are not finite
                if not run.best:
                    raise TrainingError(f"{self.name} cannot be trained: {error}") from error
                log.warning("%s stopped learning after %d steps: %s", self.name, run.steps, error)
            finally:
                self.steps = run.steps
        if not run.best:
            raise TrainingError(f"{self.name} has no finite error at any validation")
        network.load_state_dict(run.best)
        self.parameters = sum(p.numel() for p in network.parameters() if p.requires_grad)
        self.network = network.eval()

    def impute(self, given: Part) -> Float[np.ndarray, "series step dim"]:
        """Returns a value for every cell; observed cells keep theirs."""
        if self.draws:
            mean = self.sample(given, self.training.draws).mean(axis=0)
            return _keep_observed(given, mean)  # the mean of equal numbers can be rounded
        return self._apply(given, {})

    def sample(self, given: Part, draws: int) -> Float[np.ndarray, "draw series step dim"]:
        """Draws imputations."""
        return self._apply(given, {"n_sampling_times": draws})

    def _apply(self, given: Part, options: Inputs) -> np.ndarray:
        batch = self.preparation.batch(given, np.zeros(given.value.shape, dtype=bool))
        with _seeded(self.seed), torch.no_grad():
            values = [
                self.network(self.inputs(piece), **options)["imputation"].double().numpy()
                for piece in batch.split(self.training.batch)
            ]
        imputed = np.concatenate(values)
        return self.preparation.unscale(imputed.swapaxes(0, 1) if self.draws else imputed, given)

    def _validation_batch(self, validation: Part, hide: Hide) -> InputBatch:
        """The validation series with hidden cells; the same at every validation."""
        rng = np.random.default_rng([self.seed, 1])
        count = min(self.kind.validation_series, validation.series)
        some = validation.take(np.sort(rng.permutation(validation.series)[:count]))
        batch = self.preparation.batch(some, hide(some, rng))
        if not batch.target.any():
            raise InputError(
                "hide must hide some observed cell of the validation part, got none; "
                "hide more, or give more series"
            )
        return batch

    def _build(self) -> nn.Module:
        """Makes a network; PyPOTS must accept the sizes without changing them."""
        steps, channels = self.preparation.shape
        features = channels if self.preparation.even else channels + 1
        with quiet():
            model = getattr(import_module("pypots.imputation"), self.kind.model)
            built = model(n_steps=steps, n_features=features, device="cpu", **self.sizes)
        for size, value in self.sizes.items():
            if getattr(built, size, value) != value:
                raise InputError(
                    f"{self.name} cannot have {size} {value} with its other sizes; "
                    f"give {getattr(built, size)}"
                )
        return built.model


@dataclass
class CompetitorRun:
    """The training of one network."""

    network: nn.Module
    inputs: Callable[[InputBatch], Inputs]
    held_out: InputBatch
    budget: Budget
    training: CompetitorTraining = TRAINING
    steps: int = 0
    validated: int = -1
    """Steps made at the last validation."""

    cost: float = 0.0
    """Seconds of the last validation, which are reserved for the next."""

    validating: float = 0.0
    """Seconds of all validations."""

    lowest: float = math.inf
    best: dict[str, Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.started = now()
        self.optimizer = torch.optim.Adam(
            self.network.parameters(), lr=self.training.learning_rate
        )
        self._order: list[int] = []

    def continues(self, share: float) -> bool:
        """Whether this share of the budget is not used up yet; the first step is always made."""
        if self.budget.steps is None and self.steps == 0:
            return True
        return self.budget.fraction(self.steps, self.seconds + self.cost) < share

    def due(self, *, last: bool) -> bool:
        """Whether to validate: not if validations took over a tenth of the time, except the last.

        With a budget of steps every validation is made, on any machine.
        """
        if self.budget.steps is not None or last or not self.best:
            return True
        return self.validating <= self.seconds / 10

    @property
    def seconds(self) -> float:
        """Seconds since training began."""
        return now() - self.started

    def next_series(self, series: int, rng: np.random.Generator) -> np.ndarray:
        """The next batch; every series comes once an epoch, in random order."""
        if not self._order:
            self._order = rng.permutation(series).tolist()
        size = self.training.batch
        batch, self._order = self._order[:size], self._order[size:]
        return np.array(batch)

    def advance(self, batch: InputBatch) -> None:
        """Makes one optimizer step."""
        self.network.train()
        self.optimizer.zero_grad()
        self.network(self.inputs(batch), calc_criterion=True)["loss"].sum().backward()
        self.optimizer.step()
        self.steps += 1

    def validate(self, seed: int) -> None:
        """Keeps the weights if they are the best so far; does nothing if they are unchanged."""
        if self.steps == self.validated:
            return
        self.validated = self.steps
        started = self.seconds
        self.network.eval()
        total = 0.0
        # The noise is the same every time, and does not change that of the training steps.
        with _seeded(seed), torch.no_grad():
            for piece in self.held_out.split(self.training.batch):
                metric = self.network(self.inputs(piece), calc_criterion=True)["metric"]
                total += float(metric.sum()) * float(piece.target.sum())
        if total < self.lowest:
            self.lowest = total
            self.best = {name: t.clone() for name, t in self.network.state_dict().items()}
        self.cost = self.seconds - started
        self.validating += self.cost


def _unit_range(train: Part) -> Scaler:
    """Scales every channel to 0 … 1."""
    observed = np.isfinite(train.value)
    low = np.where(observed, train.value, np.inf).min(axis=(0, 1))
    high = np.where(observed, train.value, -np.inf).max(axis=(0, 1))
    spread = np.where(high > low, high - low, 1.0)
    return Scaler(np.where(np.isfinite(low), low, 0.0), np.where(np.isfinite(spread), spread, 1.0))


def _with_time(part: Part, even: bool) -> Part:
    if even:
        return part
    return Part(part.time, np.concatenate([part.value, part.time[:, :, None]], axis=2))


def _keep_observed(
    part: Part, value: Float[np.ndarray, "*draw series step dim"]
) -> Float[np.ndarray, "*draw series step dim"]:
    return np.where(np.isfinite(part.value), part.value, value)


@contextlib.contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Seeds torch's global generator, which PyPOTS draws from, and restores it afterwards."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Suppresses the banner, the log and the warnings of PyPOTS."""
    log = logging.getLogger("PyPOTS running log")
    disabled, log.disabled = log.disabled, True
    nowhere = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")  # the banner asks for the encoding
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(nowhere):
            warnings.simplefilter("ignore")
            yield
    finally:
        log.disabled = disabled
