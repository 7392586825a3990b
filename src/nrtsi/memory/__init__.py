"""Series that were learnt from, remembered: what those like a gappy one say about its gaps."""

from nrtsi.memory.memory import Memory, Recalled
from nrtsi.memory.remember import Kept, remember

__all__ = ["Kept", "Memory", "Recalled", "remember"]
