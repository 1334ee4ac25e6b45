from .address import Address as Address
from .address import bind as bind
from .application import make_application as make_application
from .live_model import LiveModel as LiveModel
from .opening import open_model as open_model
from .server import make_server as make_server
from .server import run_server as run_server
