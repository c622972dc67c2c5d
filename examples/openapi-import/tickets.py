"""A small API of support tickets: python3 tickets.py [PORT]"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TOKEN = "tickets-secret"
TICKETS = {
    1: {"id": 1, "title": "Cannot log in", "state": "open"},
    2: {"id": 2, "title": "Invoice is wrong", "state": "open"},
}


class Api(BaseHTTPRequestHandler):
    def do_GET(self):
        parts = self.path.strip("/").split("/")
        if parts == ["tickets"]:
            self.reply(200, {"tickets": list(TICKETS.values())})
        elif len(parts) == 2 and parts[1].isdigit() and int(parts[1]) in TICKETS:
            self.reply(200, TICKETS[int(parts[1])])
        else:
            self.reply(404, {"error": "no such ticket"})

    def do_POST(self):
        parts = self.path.strip("/").split("/")
        if len(parts) == 3 and parts[2] == "close" and parts[1].isdigit() and int(parts[1]) in TICKETS:
            TICKETS[int(parts[1])]["state"] = "closed"
            self.reply(200, TICKETS[int(parts[1])])
        else:
            self.reply(404, {"error": "no such ticket"})

    def reply(self, status, body):
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            status, body = 401, {"error": "the token is missing or wrong"}
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1]) if len(sys.argv) > 1 else 8000), Api)
print(f"http://127.0.0.1:{server.server_port}", flush=True)
server.serve_forever()
