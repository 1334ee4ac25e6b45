from .alignment import align as align
from .alignment_options import AlignmentOptions as AlignmentOptions
from .options import PROBES as PROBES
from .options import ProbeName as ProbeName
from .options import ProbeOptions as ProbeOptions
from .probing import forget_probes as forget_probes
from .probing import probe as probe
