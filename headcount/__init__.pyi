from . import importance as importance
from . import tasks as tasks
from .analysis import Options as Options
from .analysis import analyze as analyze
from .analysis import find_roles as find_roles
from .analysis import measure as measure
from .artifact import save as save
from .compaction import compact as compact
from .core import CorpusError as CorpusError
from .core import Head as Head
from .core import Heads as Heads
from .core import HeadTable as HeadTable
from .core import InputError as InputError
from .core import ModelError as ModelError
from .core import Plan as Plan
from .corpora import Corpus as Corpus
from .corpora import Sentence as Sentence
from .corpora import Tree as Tree
from .doctor import diagnose as diagnose
from .models import Loaded as Loaded
from .models import load as load
from .pruning import prune as prune
from .reports import write_figures as write_figures
from .reports import write_report as write_report
from .results import Analysis as Analysis
from .results import Role as Role
from .results import Thresholds as Thresholds
from .results import write_results as write_results
from .tap import examine as examine
from .tap import gated as gated
from .tap import tapped as tapped

__version__: str
__all__: list[str]
