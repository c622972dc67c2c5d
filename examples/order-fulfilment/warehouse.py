"""A small API of a warehouse: python3 warehouse.py [PORT]"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock

BUSY_ONCE = {"ord-1012"}  # The first shipment of these orders fails.
SHIPMENTS = {}
LOCK = Lock()


def problem(order):
    if order["status"] != "paid":
        return f"the order is {order['status']}, not paid"
    return None


def validate(body):
    problems = [(order, problem(order)) for order in body["orders"]]
    accepted = [order for order, why in problems if not why]
    return 200, {
        "errors": [{"orderId": order["id"], "problem": why} for order, why in problems if why],
        "accepted": [order["id"] for order in accepted],
        "totalCents": sum(order["totalCents"] for order in accepted),
    }


def ship(body):
    order = body["orderId"]
    with LOCK:
        if order in BUSY_ONCE:
            BUSY_ONCE.remove(order)
            return 503, {"error": "the packing line is busy"}
        # A repeated request for an order returns the same shipment.
        shipment = SHIPMENTS.setdefault(order, {"orderId": order, "trackingNumber": f"track-{order[4:]}"})
    return 200, shipment


class Api(BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        route = {"/validations": validate, "/shipments": ship}.get(self.path)
        status, reply = route(body) if route else (404, {"error": "no such route"})
        data = json.dumps(reply).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1]) if len(sys.argv) > 1 else 8002), Api)
print(f"http://127.0.0.1:{server.server_port}", flush=True)
server.serve_forever()
