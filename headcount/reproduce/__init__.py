"""Reproductions: a paper's tables and figures, our numbers beside the published ones.

- `reproduce_michel2019`: Are Sixteen Heads Really Better than One?, section 3; its pruning
  (sections 4 and 5) is `reproduce_michel2019_pruning`.
- `reproduce_voita2019`: Analyzing Multi-Head Self-Attention, functions of heads; its table 2 is
  `reproduce_voita2019_table2`.
- `reproduce_li2021`: Differentiable Subset Pruning of Transformer Heads.

Each returns the path of a document. Reproductions of pruning take a `PruningExperiment`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
