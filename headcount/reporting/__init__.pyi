from .figures import write_figures as write_figures
