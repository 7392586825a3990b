"""Every number that a researcher or operator may want to change, and the named presets."""

from nrtsi.config.base import Config, Share, validated
from nrtsi.config.evaluation import (
    CalibrationConfig,
    EvaluationConfig,
    ReportConfig,
    StreamConfig,
)
from nrtsi.config.model import INPUT_CLIP, ModelConfig, ScheduleConfig
from nrtsi.config.presets import PRESETS, SETTINGS, Preset, preset_for, schedule_for
from nrtsi.config.training import (
    AnalogConfig,
    BlendConfig,
    CovarianceConfig,
    DynamicsConfig,
    GateConfig,
    GPConfig,
    SamplerConfig,
    ShrinkageConfig,
    TrainConfig,
    TransitionConfig,
)

__all__ = [
    "INPUT_CLIP",
    "PRESETS",
    "SETTINGS",
    "AnalogConfig",
    "BlendConfig",
    "CalibrationConfig",
    "Config",
    "CovarianceConfig",
    "DynamicsConfig",
    "EvaluationConfig",
    "GPConfig",
    "GateConfig",
    "ModelConfig",
    "Preset",
    "ReportConfig",
    "SamplerConfig",
    "ScheduleConfig",
    "Share",
    "ShrinkageConfig",
    "StreamConfig",
    "TrainConfig",
    "TransitionConfig",
    "preset_for",
    "schedule_for",
    "validated",
]
