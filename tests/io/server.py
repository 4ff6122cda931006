# SPDX-License-Identifier: MIT
"""A server of files over HTTP/1.1 for tests, that misbehaves where it is asked to.

    with Server({"/model.safetensors": content}) as s:
        ... s.url("/model.safetensors") ... s.url("/model.safetensors?do=short&times=1")
        s.requests, s.sent, s.connections

Each connection has a thread. Everything is on loopback, at a port the system chose. Of a query, "do" names one of
the functions do_... below, "times" says how often that happens before the file is sent as it should be.
A function in `routes` (path: function(connection, request)) answers that path itself.
"""
import email.utils
import socket
import ssl
import struct
import threading
import time
import urllib.parse


class Request:
    def __init__(self, head, connection):
        lines = head.decode("latin-1").split("\r\n")
        self.method, self.target, self.version = lines[0].split(" ", 2)
        self.headers = {}
        for line in lines[1:]:
            name, _, value = line.partition(":")
            self.headers[name.strip().lower()] = value.strip()
        self.path, _, query = self.target.partition("?")
        self.path = urllib.parse.unquote(self.path)
        self.query = dict(urllib.parse.parse_qsl(query, keep_blank_values=True))
        self.connection = connection  # its number, from 1
        self.when = time.monotonic()

    def range(self, size):
        """(first, last + 1) of the file, or None for all of it."""
        text = self.headers.get("range", "")
        if not text.startswith("bytes=") or "," in text:
            return None
        first, _, last = text[6:].partition("-")
        return int(first), min(int(last) + 1 if last else size, size)


class Gone(Exception):
    """The other side closed, or this side is to close."""


class Connection:
    def __init__(self, server, sock, number):
        self.server, self.sock, self.number, self.buffer = server, sock, number, b""

    def head(self):
        while b"\r\n\r\n" not in self.buffer:
            part = self.sock.recv(65536)
            if not part or len(self.buffer) > 1 << 20:
                raise Gone
            self.buffer += part
        head, _, self.buffer = self.buffer.partition(b"\r\n\r\n")
        return head

    def send(self, data):
        """Counts what the system took."""
        view = memoryview(data)
        while view:
            n = self.sock.send(view[:1 << 16])
            self.server.count(n)
            view = view[n:]

    def reply(self, status, headers=(), body=b"", length=True):
        lines = ["HTTP/1.1 %d Some words" % status] + ["%s: %s" % h for h in headers]
        if length:
            lines.append("Content-Length: %d" % len(body))
        self.send("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body)

    def reset(self):
        """Ends the connection so that the other side gets ECONNRESET."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        raise Gone


class Server:
    def __init__(self, files=None, tls=None, redirect_host="127.0.0.1"):
        """tls: (certificate file, key file)."""
        self.files = dict(files or {})
        self.etags = {}   # path: ETag, otherwise "e-<path>"
        self.routes = {}
        self.lock = threading.Lock()
        self.done = {}    # target: how often it misbehaved
        self.stopping = threading.Event()
        self.host = redirect_host
        self.scheme = "https" if tls else "http"
        self.tls = None
        if tls:
            self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.tls.load_cert_chain(*tls)
        self.reset_log()
        self.listener = socket.socket()
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 16)
        self.listener.bind(("127.0.0.1", 0))
        self.listener.listen(256)
        self.port = self.listener.getsockname()[1]
        self.open = set()
        threading.Thread(target=self.accept, daemon=True).start()

    # ---- for tests ----

    def url(self, target, host=None):
        return "%s://%s:%d%s" % (self.scheme, host or self.host, self.port, target)

    def reset_log(self):
        with self.lock:
            self.requests, self.sent, self.connections = [], 0, 0

    def close_connections(self):
        """As a server does with those that were idle for long."""
        with self.lock:
            for sock in self.open:
                try:
                    sock.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stopping.set()
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.close_connections()

    # ---- the loop ----

    def count(self, n):
        with self.lock:
            self.sent += n

    def accept(self):
        while True:
            try:
                sock, _ = self.listener.accept()
            except OSError:
                return
            with self.lock:
                self.connections += 1
                number = self.connections
            threading.Thread(target=self.serve, args=(sock, number), daemon=True).start()

    def serve(self, sock, number):
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self.tls:
                sock = self.tls.wrap_socket(sock, server_side=True)
            with self.lock:
                self.open.add(sock)
            connection = Connection(self, sock, number)
            while not self.stopping.is_set():
                request = Request(connection.head(), number)
                with self.lock:
                    self.requests.append(request)
                self.answer(connection, request)
        except (OSError, Gone, ValueError):
            pass
        finally:
            with self.lock:
                self.open.discard(sock)
            sock.close()

    def misbehaves(self, request):
        """False when it did so often enough."""
        if "do" not in request.query:
            return False
        with self.lock:
            done = self.done[request.target] = self.done.get(request.target, 0) + 1
        return done <= int(request.query.get("times", 1 << 30))

    def answer(self, c, r):
        if r.path in self.routes:
            self.routes[r.path](c, r)
        elif self.misbehaves(r):
            getattr(self, "do_" + r.query["do"])(c, r)
        elif r.path in self.files:
            self.good(c, r)
        else:
            c.reply(404)

    # ---- as it should be ----

    def etag(self, r):
        return self.etags.get(r.path, '"e-%s"' % r.path.strip("/"))

    def good(self, c, r, more=()):
        body, etag = self.files[r.path], self.etag(r)
        headers = [("Accept-Ranges", "bytes"), *([("ETag", etag)] if etag else []), *more]
        wanted = r.range(len(body))
        if etag and r.headers.get("if-none-match") == etag:
            c.reply(304, headers, length=False)
        elif wanted is None or r.headers.get("if-range", etag) != etag:
            c.reply(200, headers, body)
        elif wanted[0] >= len(body):
            c.reply(416, [("Content-Range", "bytes */%d" % len(body))])
        else:
            c.reply(206, headers + [self.content_range(*wanted, len(body))], body[wanted[0]:wanted[1]])

    @staticmethod
    def content_range(first, end, total):
        return "Content-Range", "bytes %d-%d/%s" % (first, end - 1, total)

    def head_206(self, c, r, announced=None):
        """The header of a good range; returns its bytes."""
        body = self.files[r.path]
        first, end = r.range(len(body))
        headers = [self.content_range(first, end, len(body)), ("Content-Length", announced or end - first)]
        if self.etag(r):
            headers.append(("ETag", self.etag(r)))
        c.reply(206, headers, length=False)
        return body[first:end]

    # ---- what may go wrong ----

    def do_whole(self, c, r):
        """Knows no ranges."""
        c.reply(200, [("ETag", self.etag(r))], self.files[r.path])

    def do_chunked(self, c, r):
        """Knows neither ranges nor lengths."""
        c.reply(200, [("Transfer-Encoding", "chunked")], length=False)
        body = self.files[r.path]
        for at in range(0, len(body), 50000):
            part = body[at:at + 50000]
            c.send(b"%x\r\n%s\r\n" % (len(part), part))
        c.send(b"0\r\n\r\n")

    def do_until_closed(self, c, r):
        c.reply(200, [("Connection", "close")], self.files[r.path], length=False)
        raise Gone

    def do_range_text(self, c, r):
        """206 with the Content-Range that is in the query, or none."""
        body = self.files[r.path]
        first, end = r.range(len(body))
        c.reply(206, [("Content-Range", r.query["text"])] if r.query.get("text") else [], body[first:end])

    def do_unknown_total(self, c, r):
        body = self.files[r.path]
        first, end = r.range(len(body))
        c.reply(206, [self.content_range(first, end, "*")], body[first:end])

    def do_pieces(self, c, r):
        """Sends less than was asked for, and says so."""
        body = self.files[r.path]
        first, end = r.range(len(body))
        end = min(end, first + int(r.query["most"]))
        c.reply(206, [self.content_range(first, end, len(body)), ("ETag", self.etag(r))], body[first:end])

    def do_short(self, c, r):
        """Half of what it announces, then the end."""
        part = self.head_206(c, r)
        c.send(part[:len(part) // 2])
        raise Gone

    def do_short_whole(self, c, r):
        body = self.files[r.path]
        c.reply(200, [("Content-Length", len(body))], body[:len(body) // 2], length=False)
        raise Gone

    def do_reset_body(self, c, r):
        part = self.head_206(c, r)
        c.send(part[:len(part) // 2])
        time.sleep(0.1)
        c.reset()

    def do_reset_header(self, c, r):
        c.send(b"HTTP/1.1 206 Partial Content\r\nContent-Ra")
        time.sleep(0.1)
        c.reset()

    def do_reset(self, c, r):
        c.reset()

    def do_drip(self, c, r):
        """A byte now and then."""
        for byte in self.head_206(c, r):
            c.send(bytes([byte]))
            if self.stopping.wait(float(r.query.get("every", 0.1))):
                raise Gone

    def do_drip_header(self, c, r):
        for byte in b"HTTP/1.1 206 Partial Content\r\n" + b"X-A: b\r\n" * 1000:
            c.send(bytes([byte]))
            if self.stopping.wait(0.1):
                raise Gone

    def do_silent(self, c, r):
        self.stopping.wait(60)
        raise Gone

    def do_stop(self, c, r):
        """Half of the bytes, then nothing any more."""
        part = self.head_206(c, r)
        c.send(part[:len(part) // 2])
        self.do_silent(c, r)

    def do_redirect(self, c, r):
        c.reply(int(r.query.get("code", 302)), [("Location", r.query["to"])], b"moved")

    def do_lost(self, c, r):
        """A redirect that does not say where to."""
        c.reply(302)

    def do_loop(self, c, r):
        c.reply(302, [("Location", "%s?do=loop&n=%d" % (r.path, int(r.query.get("n", 0)) + 1))])

    def do_hub(self, c, r):
        """As huggingface.co answers for a large file."""
        c.reply(302, [("Location", r.query["to"]), ("X-Linked-Etag", '"%s"' % ("ab" * 32)),
                      ("X-Linked-Size", "123456"), ("X-Repo-Commit", "c" * 40)])

    def do_status(self, c, r):
        headers = [("Retry-After", r.query["after"])] if "after" in r.query else []
        if "in" in r.query:
            date = email.utils.formatdate(time.time() + float(r.query["in"]), usegmt=True)
            headers.append(("Retry-After", date))
        if "error" in r.query:
            headers += [("X-Error-Code", r.query["error"]), ("X-Error-Message", "Access to it is restricted")]
        c.reply(int(r.query["code"]), headers, b"page")

    def do_changing(self, c, r):
        """Another file at each request."""
        with self.lock:
            self.etags[r.path] = '"version-%d"' % self.done[r.target]
        self.good(c, r)

    def do_compressed(self, c, r):
        body = self.files[r.path]
        first, end = r.range(len(body)) or (0, len(body))
        c.reply(206, [self.content_range(first, end, len(body)), ("Content-Encoding", "gzip")], body[first:end])

    def do_garbage(self, c, r):
        c.send(b"\x00\x01\xff\xfe this is not HTTP at all\r\n\r\n" * 50)
        raise Gone

    def do_old(self, c, r):
        """HTTP/0.9: a body and nothing else."""
        c.send(b"<html>hello</html>")
        raise Gone

    def do_endless_header(self, c, r):
        """100 MB of lines."""
        c.send(b"HTTP/1.1 200 OK\r\n")
        for _ in range(1600):
            c.send((b"X-Filler: " + b"a" * 1000 + b"\r\n") * 64)

    def do_endless_line(self, c, r):
        c.send(b"HTTP/1.1 200 OK\r\nX-Filler: ")
        for _ in range(1600):
            c.send(b"a" * 65536)

    def do_continues(self, c, r):
        """1xx without end."""
        for _ in range(100000):
            c.send(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n")

    def do_large_page(self, c, r):
        """An error with a page that has no end."""
        c.reply(404, [("Content-Length", 1 << 30)], length=False)
        for _ in range(1 << 14):
            c.send(b"x" * 65536)
