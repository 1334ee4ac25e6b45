"""What tests of heads need: checks of what one adds, and models of which every head is known.

Checks: `check_effect`, `check_measure`, `check_method`, `check_relation`, `check_score` and
    `check_task`, which raise if one fails; `parametrize` for pytest; `checked`, whose `Checked` has
    every `Outcome`; `headcount check` runs them for a file or a package
Models: `planted_model`, which runs a `Program`, the heads `Planted` in it, `Known` with texts
Laws: `leaving_no_trace`
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
