"""An API that accepts only tokens of its own token endpoint: python3 peer.py [PORT]

The token endpoint implements the client credentials grant of OAuth 2.0 (RFC 6749, section 4.4).
"""

import base64
import json
import secrets
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

CLIENT = "toolwright:client-secret"
TOKENS = set()


class Peer(BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        expected = "Basic " + base64.b64encode(CLIENT.encode()).decode()
        if self.path != "/token" or self.headers.get("Authorization") != expected:
            return self.reply(401, {"error": "invalid_client"})
        token = secrets.token_hex(16)
        TOKENS.add(token)
        self.reply(200, {"access_token": token, "token_type": "Bearer", "expires_in": 3600})

    def do_GET(self):
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        if token not in TOKENS:
            return self.reply(401, {"error": "the token is missing or wrong"})
        self.reply(200, {"balance": 120, "tokensIssued": len(TOKENS)})

    def reply(self, status, body):
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1]) if len(sys.argv) > 1 else 8001), Peer)
print(f"http://127.0.0.1:{server.server_port}", flush=True)
server.serve_forever()
