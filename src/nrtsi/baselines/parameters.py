"""Settings that can be read and set by name, as scikit-learn asks of an estimator.

scikit-learn takes as long to import as everything else here but PyTorch, and filling a table by a
saved model needs nothing of it; so these few lines stand in for its base class.
"""

import inspect
from collections.abc import Mapping
from typing import Any, Self

from nrtsi.errors import InputError

__all__ = ["Parameters"]


class Parameters:
    """The arguments of the constructor, each kept in an attribute of its name."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Every setting and its value, by name.

        Args:
            deep: Ignored; scikit-learn passes it. No setting has settings of its own.
        """
        return {name: getattr(self, name) for name in sorted(_defaults(type(self)))}

    def set_params(self, **settings: Any) -> Self:
        """Sets those that are given, and returns the same object.

        Raises:
            InputError: There is no setting of that name; none is set then.
        """
        known = sorted(_defaults(type(self)))
        for name in settings:
            if name not in known:
                raise InputError(
                    f"settings of {type(self).__name__} must be some of {', '.join(known)}, "
                    f"got {name!r}; mend the name"
                )
        for name, value in settings.items():
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        defaults = _defaults(type(self))
        changed = [
            f"{name}={value!r}"
            for name, value in self.get_params().items()
            # Values can be arrays, of which `!=` is an array; their text is what is shown.
            if repr(value) != repr(defaults[name])
        ]
        return f"{type(self).__name__}({', '.join(changed)})"


def _defaults(kind: type) -> Mapping[str, Any]:
    """The default of every argument of the constructor."""
    arguments = inspect.signature(kind).parameters
    return {name: argument.default for name, argument in arguments.items()}
