"""How many series a second: ours, the paper's arrangement of the same network, and peers'."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any
from unittest.mock import patch

from nrtsi.bench import competitors
from nrtsi.bench.datasets.dataset import Part
from nrtsi.config import ScheduleConfig
from nrtsi.imputer.fitted import FittedModel
from speeds.billiards import Asked, asked, fitted, lesson
from speeds.rounds import fastest, most_mib, rounds
from speeds.sizes import Sizes
from speeds.stages import stages

BATCHES = {"brits": (32, 256), "saits": (32, 256), "helix": (32, 64), "csdi": (32,)}
"""Series at once: first what PyPOTS does unless told otherwise; more may be faster."""

SHARING = 64
"""Series of a batch that share a mask, in the kinder form of the paper's arrangement."""


@dataclass(frozen=True)
class Entry:
    """One way to fill so many series."""

    series: int
    fill: Callable[[], object]


def contest(sizes: Sizes) -> dict[str, object]:
    """Every ratio of series a second to ours, and what they are made of."""
    questions, model = asked(sizes.series), fitted(sizes.steps)
    own = _ours(model, questions.given)
    entries = {"nrtsi": own} | _paper(model, questions, sizes) | _peers(questions, sizes)
    model.fill(questions.given.head(SHARING).to_set())
    meters = rounds({name: entry.fill for name, entry in entries.items()}, sizes.repeats)
    table = {
        name: {
            "series": entry.series,
            "seconds": fastest(meters[name]),
            "series_per_second": entry.series / fastest(meters[name]),
            "peak_mib": most_mib(meters[name]),
        }
        for name, entry in entries.items()
    }
    return ratios(table) | {"billiards": table, "stages": stages(own.fill)}


def ratios(table: Mapping[str, Mapping[str, Any]]) -> dict[str, float | None]:
    """How many times as many series a second nrtsi fills; None where a method was not measured."""
    rivals = {"over_paper_arrangement": ["paper"], "over_paper_shared_masks": ["paper, shared"]}
    for peer in BATCHES:
        own = [name for name in table if name.split(",")[0] == peer]
        rivals[f"over_{peer}"] = own[:1]
        if len(BATCHES[peer]) > 1:
            rivals[f"over_{peer}_fastest"] = own
    rate = {name: row["series_per_second"] for name, row in table.items()}
    return {
        key: rate["nrtsi"] / max(rate[name] for name in names) if names else None
        for key, names in rivals.items()
    }


def _ours(model: FittedModel, given: Part) -> Entry:
    series = given.to_set()
    return Entry(given.series, lambda: model.fill(series))


def _paper(model: FittedModel, questions: Asked, sizes: Sizes) -> dict[str, Entry]:
    """The same weights: one mask a batch, the paper's order, attention over whole series."""
    engine = replace(
        model.engine,
        model=model.engine.model.model_copy(update={"window": None}),
        schedule=ScheduleConfig(order="widest", max_level=4),
    )
    paper = replace(model, engine=engine)
    some = questions.given.spread(sizes.alone)
    alone = [Part(some.time[[i]], some.value[[i]]) for i in range(some.series)]
    shared = [questions.sharing(mask, SHARING) for mask in range(sizes.shared // SHARING)]
    return {"paper": _in_turn(paper, alone), "paper, shared": _in_turn(paper, shared)}


def _in_turn(model: FittedModel, batches: list[Part]) -> Entry:
    sets = [batch.to_set() for batch in batches]
    return Entry(
        sum(batch.series for batch in batches), lambda: [model.fill(each) for each in sets]
    )


def _peers(questions: Asked, sizes: Sizes) -> dict[str, Entry]:
    """Untrained networks at their recommended sizes; none where PyPOTS is not installed."""
    if find_spec("pypots") is None:
        return {}
    return {
        f"{name}, {batch} at once": _peer(_untrained(name), questions.given.spread(series), batch)
        for name, series in sizes.peers.items()
        for batch in BATCHES[name]
        if batch == min(BATCHES[name]) or batch <= series
    }


def _untrained(name: str) -> competitors.Competitor:
    peer, lessons = competitors.Competitor(name), lesson(0)
    # One validation is made, which warms the network up.
    peer.fit(lessons.train, lessons.validation.head(1), lessons.masks.draw, lessons.budget)
    return peer


def _peer(peer: competitors.Competitor, given: Part, batch: int) -> Entry:
    def fill() -> None:
        with patch.object(competitors, "BATCH", batch):
            if peer.gives_draws:
                peer.draw(given, 1)
            else:
                peer.fill(given)

    return Entry(given.series, fill)
