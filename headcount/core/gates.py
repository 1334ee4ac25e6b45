"""Gates: what every head's output is multiplied by."""

from collections.abc import Mapping

from jaxtyping import Float
from torch import Tensor

from headcount.core.heads import LayerId

Gates = Mapping[LayerId, Float[Tensor, "*rows head"]]
"""Gates by (site, layer): one per head; per row and head; or per row, query and head.

Layers without an entry are unchanged.
"""
