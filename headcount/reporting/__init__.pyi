from .citations import Cited as Cited
from .citations import bibliography as bibliography
from .citations import citing as citing
from .citations import entries_of as entries_of
from .figures import write_figures as write_figures
from .figures import write_paper_figures as write_paper_figures
