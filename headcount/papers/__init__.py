"""What papers reproduce: their tables and figures on your model and data, and what these need.

- `reproduce_michel2019`: Are Sixteen Heads Really Better than One?, section 3; its pruning
  (sections 4 and 5) is `reproduce_michel2019_pruning`.
- `reproduce_voita2019`: Analyzing Multi-Head Self-Attention, functions of heads; its table 2 is
  `reproduce_voita2019_table2`.
- `voita2019evolution_document`: The Bottom-up Evolution of Representations, of what `evolve`
  measures of any models, layer by layer.
- `reproduce_li2021`: Differentiable Subset Pruning of Transformer Heads.
- `kovaleva2019_document`: Revealing the Dark Secrets of BERT, of `measure_tuned_maps`.
- `kobayashi2020_document`: Attention is Not Only a Weight, of `measure_contributions`.
- `reproduce_clark2019`, `coenen2019_document`, `hewitt2019_document`: papers on probes, of what
  `headcount.probing.probe` measures.

Each returns a document. Reproductions of pruning take a `PruningExperiment`. Models to
reproduce on are trained from scratch with `train`, and followed along a training with `follow`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
