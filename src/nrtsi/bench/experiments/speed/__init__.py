"""The record of a run: what was measured, and with what."""

import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import torch

from nrtsi.bench.runner import code_revision, code_versions
from speeds.billiards import digest
from speeds.goals import GOALS
from speeds.sizes import Sizes


def measured(sizes: Sizes, questions: Sequence[str]) -> dict[str, Any]:
    """The ratios first, then the circumstances, then what the ratios are made of.

    A ratio is None where its question was not asked or a peer is not installed. Each question is
    a file with a function of its name.
    """
    about = {
        "quick": sizes.quick,
        "threads": torch.get_num_threads(),
        "versions": code_versions(digest(sizes.series), "quick" if sizes.quick else ""),
        "revision": code_revision(),  # of the code that runs, which may be edited meanwhile
    }
    found: dict[str, Any] = {}
    for question in questions:
        print(f"{question} …", file=sys.stderr)
        found |= getattr(import_module(f"speeds.{question}"), question)(sizes)
    return {key: found.pop(key, None) for key in GOALS} | about | found
