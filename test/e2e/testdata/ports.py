"""A program in a sandbox, for the tests of ports: it acts like a friendly server and like a hostile one."""
import base64, hashlib, json, threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

go = threading.Event()
MINE = "__Host-belljar-preview"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def answer(self, body, *headers):
        self.send_response(200)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        size = int(self.headers.get("Content-Length") or 0)
        self.answer(hashlib.sha256(self.rfile.read(size)).hexdigest().encode())

    def do_GET(self):
        name = self.path.split("?")[0].strip("/")
        if self.headers.get("Upgrade", "").lower() == "websocket":
            self.echo()
        elif name in ("cookies", "events", "big", "endless", "early", "garbage"):
            getattr(self, name)()
        else:
            text = json.dumps({"path": self.path, "headers": dict(self.headers.items())})
            self.answer(text.encode(), ("Content-Type", "application/json"))

    def cookies(self):
        cookies = [
            "good=1; Path=/x; Domain=preview.localhost; HttpOnly", "two=2;DOMAIN = .localhost;Secure", MINE + "=stolen; Path=/; Secure",
            "=" + MINE + "=stolen", MINE.upper() + "=stolen", "tab\t=1; domain\t=x", MINE,
        ]
        headers = [("Set-Cookie", cookie) for cookie in cookies]
        self.answer(b"", *headers, ("Clear-Site-Data", '"*"'), ("Alt-Svc", 'h3=":1"'))

    def events(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        text = b"data: one\n\n"
        self.wfile.write(b"%x\r\n%s\r\n" % (len(text), text))
        go.wait()

    def big(self):
        self.send_response(200)
        self.send_header("Content-Length", str(100 << 20))
        self.end_headers()
        for _ in range(100):
            self.wfile.write(bytes(1 << 20))

    def endless(self):
        self.send_response(200)
        self.send_header("Content-Length", str(1 << 40))
        self.end_headers()
        self.wfile.write(b"x" * 1000)
        go.wait()

    def early(self):
        self.wfile.write(b"HTTP/1.1 103 Early Hints\r\nSet-Cookie: early=1; Domain=preview.localhost\r\n\r\n")
        self.answer(b"late")

    def garbage(self):
        self.wfile.write(b"this is not HTTP\r\n\r\n")
        self.close_connection = True

    def echo(self):
        key = self.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        self.send_response(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        self.send_header("Sec-WebSocket-Accept", base64.b64encode(hashlib.sha1(key.encode()).digest()).decode())
        self.send_header("Set-Cookie", "upgraded=1; Domain=preview.localhost")
        self.end_headers()
        head, mask = self.rfile.read(2), self.rfile.read(4)
        size = head[1] & 127
        text = bytes(b ^ mask[i % 4] for i, b in enumerate(self.rfile.read(size)))
        self.wfile.write(bytes([0x81, size]) + text)
        self.rfile.read(1)
        self.close_connection = True


class Server(ThreadingHTTPServer):
    request_queue_size = 128


server = Server(("127.0.0.1", 3000), Handler)
print("ready", flush=True)
server.serve_forever()
