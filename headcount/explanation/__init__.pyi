from .explaining import explain as explain
from .prompts import OURS as OURS
from .prompts import ExplainOptions as ExplainOptions
from .prompts import Prompt as Prompt
from .prompts import read_prompts as read_prompts
from .reader import KINDS as KINDS
from .reader import MASK as MASK
from .reader import spelled as spelled
