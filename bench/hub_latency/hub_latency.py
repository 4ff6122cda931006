#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""How many delays of the network it takes to read the headers of many shards through redirects, as on a hub.

    HTTP_CLIENT=build/tests/io/http_client python3 hub_latency.py [--delay-ms 200] [--shards 135]

nginx serves a folder over TLS, with HTTP/2 and without. A relay on loopback holds every byte back for half the delay in
each direction, so that a question and its answer are one delay apart; TCP's own handshake, one delay more for each new
connection, is not in it. Each line: protocol, what was asked, seconds, that in delays, connections.
"""
import argparse
import asyncio
import os
import socket
import subprocess
import tempfile
import threading
import time

CLIENT = os.environ["HTTP_CLIENT"]


class Relay:
    """Forwards connections to `port`, each byte after `seconds`."""

    def __init__(self, port, seconds):
        self.target, self.seconds, self.connections = port, seconds, 0
        self.ready = threading.Event()
        threading.Thread(target=lambda: asyncio.run(self.serve()), daemon=True).start()
        self.ready.wait()

    async def serve(self):
        server = await asyncio.start_server(self.relay, "127.0.0.1", 0, backlog=256)
        self.port = server.sockets[0].getsockname()[1]
        self.ready.set()
        await server.serve_forever()

    async def relay(self, reader, writer):
        self.connections += 1
        there_reader, there_writer = await asyncio.open_connection("127.0.0.1", self.target)
        await asyncio.gather(self.delayed(reader, there_writer), self.delayed(there_reader, writer))

    async def delayed(self, reader, writer):
        queue = asyncio.Queue()

        async def send():
            while True:
                due, data = await queue.get()
                await asyncio.sleep(max(0, due - time.monotonic()))
                if not data:
                    break
                writer.write(data)
            writer.close()
        sender = asyncio.create_task(send())
        data = b"-"
        while data:
            try:
                data = await reader.read(65536)
            except OSError:
                data = b""
            queue.put_nowait((time.monotonic() + self.seconds, data))
        await sender


def openssl(*words):
    subprocess.run(["openssl", *words], check=True, capture_output=True)


def certificate(folder):
    """One that signed itself and is trusted for that."""
    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj",
            "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout", folder + "/key.pem", "-out",
            folder + "/certificate.pem")


CONF = """
daemon off; pid %(folder)s/pid; error_log %(folder)s/errors; worker_processes 1; master_process off;
events { worker_connections 1024; }
http {
  access_log off; client_body_temp_path %(folder)s/t; proxy_temp_path %(folder)s/t; fastcgi_temp_path %(folder)s/t;
  uwsgi_temp_path %(folder)s/t; scgi_temp_path %(folder)s/t;
  absolute_redirect off; ssl_protocols TLSv1.2 TLSv1.3;
  ssl_certificate %(folder)s/certificate.pem; ssl_certificate_key %(folder)s/key.pem; root %(folder)s;
  location_block
}
"""
SERVER = "server { listen 127.0.0.1:%d ssl %s; location /resolve/ { return 302 /f; } }"


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def start(folder):
    ports = {"HTTP/2": free_port(), "HTTP/1.1": free_port()}
    servers = SERVER % (ports["HTTP/2"], "http2") + SERVER % (ports["HTTP/1.1"], "")
    with open(folder + "/conf", "w") as f:
        f.write((CONF % {"folder": folder}).replace("location_block", servers))
    with open(folder + "/f", "wb") as f:
        f.write(os.urandom(1 << 20))
    server = subprocess.Popen(["nginx", "-p", folder, "-e", folder + "/errors", "-c", folder + "/conf"])
    for port in ports.values():
        for _ in range(100):
            with socket.socket() as s:
                if s.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
    return server, ports


def measure(folder, name, port, what, lines, seconds):
    relay = Relay(port, seconds / 2)
    text = "\n".join(lines).replace("PORT", str(relay.port)) + "\n"
    env = dict(os.environ, SSL_CERT_FILE=folder + "/certificate.pem")
    env.pop("SSL_CERT_DIR", None)
    began = time.monotonic()
    done = subprocess.run([CLIENT], input=text, env=env, capture_output=True, text=True, check=True)
    took = time.monotonic() - began
    good = done.stdout.count('"result": "ok"')
    if good != len([line for line in lines if line]):
        raise SystemExit("only %d answers: %s" % (good, done.stdout[:500]))
    print("%-9s %-34s %6.2f s %6.1f delays %3d connections" % (name, what, took, took / seconds, relay.connections))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--delay-ms", type=int, default=200)
    parser.add_argument("--shards", type=int, default=135)
    args = parser.parse_args()
    seconds, n = args.delay_ms / 1000, args.shards
    url = "https://localhost:PORT"
    one = ["%s/f 0 8 4096" % url]
    direct = ["%s/f?%d %d 8 4096" % (url, i, i * 4096) for i in range(n)]
    redirected = ["%s/resolve/%d %d 8 4096" % (url, i, i * 4096) for i in range(n)]
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        certificate(folder)
        server, ports = start(folder)
        try:
            for name, port in ports.items():
                measure(folder, name, port, "1 range", one, seconds)
                measure(folder, name, port, "%d ranges" % n, direct, seconds)
                measure(folder, name, port, "%d redirects, %d ranges" % (n, n), redirected, seconds)
                measure(folder, name, port, "1 range, then %d redirects" % n, one + [""] + redirected, seconds)
        finally:
            server.terminate()
            server.wait()


if __name__ == "__main__":
    main()
