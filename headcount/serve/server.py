"""The server: uvicorn on a bound socket."""

import uvicorn

from headcount.serve.address import Address
from headcount.serve.application import make_application
from headcount.serve.live_model import LiveModel


def run_server(live: LiveModel, address: Address) -> None:
    """Answer until the process is stopped."""
    app = make_application(live, address.token, address.host)
    config = uvicorn.Config(app, log_level="warning", access_log=False, lifespan="off")
    uvicorn.Server(config).run(sockets=[address.socket])
