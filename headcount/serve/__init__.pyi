from .address import Address as Address
from .address import bind as bind
from .application import make_application as make_application
from .application import make_server as make_server
from .application import run_server as run_server
from .live_model import LiveModel as LiveModel
from .live_model import open_model as open_model
