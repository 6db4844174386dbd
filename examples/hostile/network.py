"""Tries to connect to the host's own services (ports as arguments), a resolver, the internet, a cloud's metadata."""

import socket
import sys

reached = []
tried = 0


def attempt(what, action):
    global tried
    tried += 1
    try:
        action()
        reached.append(what)
    except OSError as e:
        print(f"{what}: {e.strerror or e}")


def tcp(host, port):
    attempt(f"{host}:{port}", lambda: socket.create_connection((host, port), timeout=2).close())


for port in sys.argv[1:]:
    tcp("127.0.0.1", int(port))
    tcp("::1", int(port))
tcp("1.1.1.1", 443)
tcp("169.254.169.254", 80)
tcp("10.0.0.1", 22)
attempt("dns: example.com", lambda: socket.getaddrinfo("example.com", 80))
attempt("udp 8.8.8.8:53", lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("8.8.8.8", 53)))
attempt("raw packets", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0))

for what in reached:
    print("REACHED", what)
print(f"reached {len(reached)} of {tried}")
