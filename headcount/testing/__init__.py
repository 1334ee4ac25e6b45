"""What tests of heads need: checks of what one adds, and models of which every head is known.

Checks are `check_effect`, `check_measure`, `check_method`, `check_relation`, `check_score`,
`check_skill`, `check_task` and `check_trait`, which raise if one fails; `parametrize` is for
pytest, and `checked` returns a `Checked` with every `Outcome`. `headcount check` runs them for a
file or a package.

Models are made by `planted_model`, which runs a `Program` of `Planted` heads; `Known` has texts,
too. `leaving_no_trace` is a law.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
