"""The ratios that are measured, and what they must reach."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Goal:
    """What a figure means, and what it is held to."""

    what: str
    unit: str = "×"
    least: float | None = None
    most: float | None = None

    @property
    def asked(self) -> str:
        """What it must reach, in words; a dash where it is only told."""
        if self.least is not None:
            return f"at least {self.shown(self.least)}"
        return "–" if self.most is None else f"at most {self.shown(self.most)}"

    def shown(self, figure: float | None) -> str:
        """A figure with three digits and its unit; a dash where nothing was measured."""
        if figure is None:
            return "–"
        if self.unit == "%":
            return f"{100 * figure:.3g} %"
        return f"{figure:.3g}{'' if self.unit == '×' else ' '}{self.unit}"

    def met(self, figure: float | None) -> str:
        """Yes, no, or a dash where there is nothing to say."""
        if figure is None or (self.least is None and self.most is None):
            return "–"
        high_enough = self.least is None or figure >= self.least
        low_enough = self.most is None or figure <= self.most
        return "yes" if high_enough and low_enough else "**no**"


GOALS = {
    "over_paper_arrangement": Goal(
        "series a second over the paper's arrangement of the same network: one mask a batch, "
        "hence one series",
        least=8,
    ),
    "over_paper_shared_masks": Goal("the same where 64 series share a mask and go together"),
    "over_brits": Goal("series a second over BRITS as PyPOTS runs it, 32 at once", least=1),
    "over_brits_fastest": Goal("the same, over BRITS with the faster of 32 and 256 at once"),
    "over_csdi": Goal("series a second over CSDI, one draw", least=1),
    "over_saits": Goal("series a second over SAITS, 32 at once"),
    "over_saits_fastest": Goal("the same, over SAITS with the faster of 32 and 256 at once"),
    "over_helix": Goal("series a second over HELIX, 32 at once"),
    "over_helix_fastest": Goal("the same, over HELIX with the faster of 32 and 64 at once"),
    "planning_share": Goal(
        "seconds of the plan over those of filling, 1,000 series of 1,000 points",
        unit="%",
        most=0.02,
    ),
    "matmul_share": Goal(
        "arithmetic a second in training over that of its products of matrices alone",
        unit="%",
        least=0.45,
    ),
    "growth_1e6_over_1e5": Goal("seconds for 10⁶ points over 10⁵, gaps in whole rows", most=12),
    "growth_1e6_over_1e5_by_channel": Goal("the same, gaps in each channel by itself", most=12),
    "peak_gib_1e6": Goal("memory of a process that fills 10⁶ points, whole rows", unit="GiB"),
    "peak_gib_1e6_by_channel": Goal("the same, gaps in each channel by itself", unit="GiB"),
    "startup_over_torch": Goal(
        "`nrtsi impute` of a small file with a saved model over `import torch`", most=1.6
    ),
}
