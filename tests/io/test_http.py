#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What io_http_perform makes of servers that behave, and of those that do not: outcome, sentence, how many requests and
bytes that took, and how long.

    HTTP_CLIENT=path/to/http_client python3 test_http.py
"""
import json
import os
import random
import shutil
import socket
import subprocess
import tempfile
import threading
import time
import unittest
import urllib.parse

from server import Server

CLIENT = os.environ["HTTP_CLIENT"]
ENOMEM, EFORMAT, ELIMIT, EUNSUPPORTED, ESETTING, ENOTFOUND, EIO = -1, -2, -3, -4, -5, -6, -7
SLACK = 6  # seconds that a busy machine may take for nothing; what is cut off here would last for 60 or more
CONTENT = random.Random(7).randbytes(200000)
LARGE = random.Random(8).randbytes(32 << 20)
SECRET = "hf_secretToken123"


def digest(data):
    h = 0xcbf29ce484222325
    for byte in data:
        h = ((h ^ byte) * 0x100000001b3) & 0xffffffffffffffff
    return "%016x" % h


def client(lines, *limits, env=None, status=0):
    """The answers, how long it took, and standard error."""
    e = {k: v for k, v in os.environ.items()
         if not k.lower().endswith("_proxy") and not k.startswith(("SSL_CERT", "CURL_CA", "REQUESTS_CA", "VRAM_"))}
    e.update(env or {})
    began = time.monotonic()
    done = subprocess.run([CLIENT, *limits], input="\n".join(lines) + "\n", capture_output=True, text=True, env=e,
                          timeout=120)
    took = time.monotonic() - began
    assert done.returncode == status, (done.returncode, done.stdout[-500:], done.stderr[-3000:])
    return [json.loads(line) for line in done.stdout.splitlines()], took


def ask(line, *limits, env=None):
    return client([line], *limits, env=env)[0][0]


class Base(unittest.TestCase):
    def setUp(self):
        self.s = self.enterContext(Server({"/f": CONTENT, "/large": LARGE, "/empty": b""}))

    def ask(self, target, what, *limits, env=None):
        return ask("%s %s" % (self.s.url(target), what), *limits, env=env)

    def assertBytes(self, answer, expected):
        self.assertEqual(answer["result"], "ok", answer)
        self.assertEqual(answer["n"], len(expected))
        self.assertEqual(answer["digest"], digest(expected))
        self.assertEqual(answer["trouble"], "")

    def assertTrouble(self, answer, code, sentence, result="failed"):
        self.assertEqual((answer["result"], answer["code"]), (result, code), answer)
        self.assertRegex(answer["trouble"], sentence)
        self.assertTrue(answer["trouble"].startswith("the server "), answer["trouble"])


class Good(Base):
    def test_range(self):
        a = self.ask("/f", "1000 10 500")
        self.assertBytes(a, CONTENT[1000:1500])
        self.assertEqual((a["status"], a["total"], a["validator"]), (206, len(CONTENT), '"e-f"'))
        sent = self.s.requests[0].headers
        self.assertEqual(sent["range"], "bytes=1000-1499")
        self.assertEqual(sent["accept-encoding"], "identity")
        self.assertEqual(sent["user-agent"], "vram/0.1.0")
        self.assertNotIn("authorization", sent)
        self.assertLess(self.s.sent, 1000)

    def test_range_over_the_end(self):
        self.assertBytes(self.ask("/f", "199000 10 50000"), CONTENT[199000:])

    def test_range_after_the_end(self):
        a = self.ask("/f", "200000 10 500")
        self.assertBytes(a, b"")
        self.assertEqual((a["status"], a["total"]), (416, len(CONTENT)))
        self.assertBytes(self.ask("/empty", "0 8 500"), b"")

    def test_unknown_total(self):
        a = self.ask("/f?do=unknown_total", "10 10 500")
        self.assertBytes(a, CONTENT[10:510])
        self.assertNotIn("total", a)

    def test_whole(self):
        a = self.ask("/f", "whole 200000 accept=text/plain")
        self.assertBytes(a, CONTENT)
        self.assertEqual(a["total"], len(CONTENT))
        self.assertNotIn("range", self.s.requests[0].headers)
        self.assertEqual(self.s.requests[0].headers["accept"], "text/plain")
        for do in ("chunked", "until_closed"):
            a = self.ask("/f?do=" + do, "whole 200000")
            self.assertBytes(a, CONTENT)
            self.assertEqual(a["total"], len(CONTENT))
        self.assertBytes(self.ask("/empty", "whole 100"), b"")

    def test_whole_over_the_limit(self):
        for target in ("/large", "/large?do=chunked", "/large?do=until_closed"):
            self.s.reset_log()
            self.assertTrouble(self.ask(target, "whole 100000"), ELIMIT, "over the limit of 100000|more than the limit of 100000 bytes")
            self.assertEqual(len(self.s.requests), 1)
            self.assertLess(self.s.sent, 8 << 20)  # what the system's buffers take

    def test_cache_questions(self):
        a = self.ask("/f", 'whole 200000 known="e-f"')
        self.assertEqual((a["result"], a["status"], a["validator"]), ("not_modified", 304, '"e-f"'))
        self.assertBytes(self.ask("/f", 'whole 200000 known="other"'), CONTENT)

    def test_connections_are_kept(self):
        lines = ["%s %d 10 500" % (self.s.url("/f"), i * 1000) for i in range(8)]
        answers, _ = client([lines[0], "", *lines, "", *lines], "connections=4")
        for i, a in enumerate(answers[1:]):
            self.assertBytes(a, CONTENT[i % 8 * 1000:][:500])
        self.assertEqual(len(self.s.requests), 17)
        self.assertLessEqual(self.s.connections, 4)

    def test_connection_that_was_closed_meanwhile(self):
        """A server ends idle connections: the next request makes a new one, and none counts as failed."""
        self.s.routes["/end"] = lambda c, r: (c.reply(200, [], b"x"), c.sock.shutdown(socket.SHUT_RDWR))
        line = "%s 0 1 1" % self.s.url("/end")
        answers, took = client([line, "", line, "", line], "tries=1")
        self.assertEqual([a["result"] for a in answers], ["ok"] * 3)
        self.assertLess(took, SLACK)

    def test_many(self):
        """2,000 requests, each through a redirect, over at most 24 connections."""
        self.s.routes["/r"] = lambda c, r: c.reply(302, [("Location", "f?" + r.target.partition("?")[2])])
        lines = ["%s %d 10 100" % (self.s.url("/r?%d" % i), i * 90) for i in range(2000)]
        answers, took = client(lines)
        for i, a in enumerate(answers):
            self.assertBytes(a, CONTENT[i * 90:][:100])
        self.assertEqual(len(self.s.requests), 4000)
        self.assertLessEqual(self.s.connections, 24)
        self.assertLess(took, 60)  # a second on a computer that has nothing else to do

    def test_no_requests(self):
        self.assertEqual(client(["", ""])[0], [])


class Ranges(Base):
    def test_whole_file_for_a_range_at_its_begin(self):
        """Read as far as it is needed and then cut off."""
        for do in ("whole", "chunked", "until_closed"):
            self.s.reset_log()
            self.assertBytes(self.ask("/large?do=" + do, "0 10 5000"), LARGE[:5000])
            self.assertLess(self.s.sent, 8 << 20)
            self.assertEqual(len(self.s.requests), 1)
        self.assertBytes(self.ask("/f?do=whole", "0 10 500000"), CONTENT)

    def test_whole_file_for_a_range_near_its_begin(self):
        for do in ("whole", "chunked"):
            self.assertBytes(self.ask("/f?do=" + do, "100000 10 5000"), CONTENT[100000:105000])
            a = self.ask("/f?do=" + do, "199000 10 5000")
            self.assertBytes(a, CONTENT[199000:])
            self.assertEqual(a["total"], len(CONTENT))
            a = self.ask("/f?do=" + do, "300000 10 5000")  # after the end
            self.assertBytes(a, b"")
            self.assertEqual(a["total"], len(CONTENT))

    def test_whole_file_for_a_range_far_in(self):
        a = self.ask("/large?do=whole", "20000000 10 5000")
        self.assertTrouble(a, EUNSUPPORTED, "sends only whole files")
        self.assertIn("hint", a)
        self.assertLess(self.s.sent, 8 << 20)

    def test_wrong_range(self):
        for text in ("bytes 0-499/200000", "bytes 1001-1500/200000", "bytes 1000-1500/200000", "bytes 1000-1499/1400",
                     "bytes 1000-1499", "bytes=1000-1499/200000", "1000-1499/200000", "bytes 1000-1499/x",
                     "bytes 1000-999/200000", "bytes */200000", "bytes 1000-/200000", "bytes -1000-1499/200000",
                     "bytes 1000-1499/18446744073709551616", "bytes 1000-1498/200000", ""):
            self.s.reset_log()
            a = self.ask("/f?do=range_text&text=" + urllib.parse.quote(text), "1000 10 500")
            self.assertTrouble(a, EFORMAT, "another part of the file than was asked for")
            self.assertEqual(len(self.s.requests), 1)

    def test_range_in_odd_letters(self):
        a = self.ask("/f?do=range_text&text=" + urllib.parse.quote("Bytes  1000-1499/200000 "), "1000 10 500")
        self.assertBytes(a, CONTENT[1000:1500])

    def test_part_of_what_was_asked_for(self):
        """RFC 9110 15.3.7 allows it; asked on where it is not enough."""
        a = self.ask("/f?do=pieces&most=1000", "0 900 5000")
        self.assertBytes(a, CONTENT[:1000])
        self.s.reset_log()
        a = self.ask("/f?do=pieces&most=2000", "0 5000 5000")
        self.assertBytes(a, CONTENT[:5000])
        self.assertEqual([r.headers["range"] for r in self.s.requests],
                         ["bytes=0-4999", "bytes=2000-4999", "bytes=4000-4999"])

    def test_range_not_satisfiable_inside(self):
        self.s.routes["/odd"] = lambda c, r: c.reply(416, [("Content-Range", "bytes */5000")])
        self.assertTrouble(ask("%s 100 10 500" % self.s.url("/odd")), EIO, r"416 \(Range Not Satisfiable\)", "status")

    def test_compressed(self):
        self.assertTrouble(self.ask("/f?do=compressed", "0 10 500"), EUNSUPPORTED, "compressed")

    def test_multipart(self):
        self.s.routes["/m"] = lambda c, r: c.reply(206, [("Content-Type", "multipart/byteranges; boundary=X")], b"--X")
        self.assertTrouble(ask("%s 100 10 500" % self.s.url("/m")), EFORMAT, "without Content-Range")


class Changes(Base):
    def test_validator_that_is_the_same(self):
        a = self.ask("/f", '0 10 500 validator="e-f"')
        self.assertBytes(a, CONTENT[:500])
        self.assertEqual(self.s.requests[0].headers["if-range"], '"e-f"')

    def test_file_that_changed(self):
        self.s.reset_log()
        a = self.ask("/large", '0 10 500 validator="old"')
        self.assertTrouble(a, EIO, "another version of the file", "changed")
        self.assertEqual(a["validator"], '"e-large"')
        self.assertEqual(len(self.s.requests), 1)
        self.assertLess(self.s.sent, 8 << 20)

    def test_206_of_another_version(self):
        """A server that does not know If-Range."""
        self.s.routes["/v"] = lambda c, r: c.reply(206, [("Content-Range", "bytes 0-9/100"), ("ETag", '"new"')], b"0123456789")
        line = "%s 0 10 10" % self.s.url("/v")
        self.assertEqual(ask(line + ' validator="old"')["result"], "changed")
        self.assertEqual(ask(line + ' validator="new"')["result"], "ok")

    def test_weak_etag_is_no_validator(self):
        self.s.etags["/f"] = 'W/"x"'
        self.assertEqual(self.ask("/f", "0 10 500")["validator"], "")
        date = "Mon, 05 Jan 2026 01:02:03 GMT"
        self.s.routes["/d"] = lambda c, r: c.reply(200, [("ETag", 'W/"x"'), ("Last-Modified", date)], b"x")
        line = "%s 0 1 1" % self.s.url("/d")
        self.assertEqual(ask(line)["validator"], date)
        self.assertEqual(ask(line + " validator=" + date.replace(" ", "+"))["result"], "ok")
        self.assertEqual(ask(line + " validator=" + date.replace(" ", "+").replace("2026", "2025"))["result"], "changed")

    def test_change_while_a_range_is_continued(self):
        """The first bytes are of another version than the rest: all of it is read again."""
        self.s.routes["/c"] = self.torn
        a = ask("%s 0 1000 1000" % self.s.url("/c"))
        self.assertBytes(a, CONTENT[1000:2000])
        self.assertEqual(a["validator"], '"2"')
        self.assertEqual([r.headers["range"] for r in self.s.requests], ["bytes=0-999", "bytes=500-999"])
        self.assertEqual(self.s.requests[1].headers["if-range"], '"1"')

    def torn(self, c, r):
        first = len(self.s.requests) == 1
        data = CONTENT[:1000] if first else CONTENT[1000:2000]
        if first:
            c.reply(206, [("ETag", '"1"'), ("Content-Range", "bytes 0-999/1000"), ("Content-Length", 1000)], data[:500],
                    length=False)
            c.reset()
        c.reply(200, [("ETag", '"2"')], data)

    def test_continued_by_a_server_without_if_range(self):
        """206 of another version while continuing: begun again."""
        def torn(c, r):
            first, end = r.range(1000)
            version = len(self.s.requests)
            c.reply(206, [("ETag", '"%d"' % min(version, 2)), self.s.content_range(first, end, 1000),
                          ("Content-Length", end - first)], CONTENT[first:end] if version > 1 else b"?" * 500, length=False)
            if version == 1:
                c.reset()
        self.s.routes["/c"] = torn
        a = ask("%s 0 1000 1000" % self.s.url("/c"))
        self.assertBytes(a, CONTENT[:1000])
        self.assertEqual([r.headers["range"] for r in self.s.requests], ["bytes=0-999", "bytes=500-999", "bytes=0-999"])


class Redirects(Base):
    def to(self, url, code=302):
        return self.s.url("/r?do=redirect&code=%d&to=%s" % (code, urllib.parse.quote(url, safe="")))

    def test_every_kind(self):
        for code in (301, 302, 303, 307, 308):
            a = ask("%s 10 10 500" % self.to(self.s.url("/f?signature=abc"), code))
            self.assertBytes(a, CONTENT[10:510])
            self.assertEqual(a["location"], self.s.url("/f"))
        for code in (300, 304, 305, 306):
            a = ask("%s 10 10 500" % self.to(self.s.url("/f"), code))
            self.assertTrouble(a, EIO, "sends back %d" % code, "status")

    def test_relative(self):
        for to in ("/f", "f", "./f", "../f", "//127.0.0.1:%d/f" % self.s.port, "?x=1", "f#part"):
            self.s.routes["/x/y"] = lambda c, r, to=to: c.reply(302, [("Location", to)])
            self.s.files["/x/f"] = CONTENT
            self.s.routes["/"] = self.s.good
            line = "%s 10 10 500" % self.s.url("/x/y")
            if to == "?x=1":
                self.s.routes["/x/y"] = lambda c, r: c.reply(302, [("Location", "?x=1")]) if not r.query else \
                    c.reply(206, [("Content-Range", "bytes 10-509/600")], CONTENT[10:510])
            self.assertBytes(ask(line), CONTENT[10:510])

    def test_too_many(self):
        a = self.ask("/f?do=loop", "0 10 500", "hops=5")
        self.assertTrouble(a, EIO, "redirects without end")
        self.assertEqual(len(self.s.requests), 6)

    def test_nowhere(self):
        self.assertTrouble(self.ask("/f?do=lost", "0 10 500"), EIO, "redirects to nowhere")

    def test_refused(self):
        for to, why in (("http://vram.invalid/x?secret=1", "redirects to vram.invalid.*not encrypted"),
                        ("ftp://127.0.0.1/x", "only https and http"), ("file:///etc/passwd", "only https and http"),
                        ("http://", "not a URL"), ("gopher://127.0.0.1/", "only https and http"),
                        ("http://user@:99999/", "not a URL")):
            a = ask("%s 0 10 500" % self.to(to))
            self.assertTrouble(a, EIO, why)
            self.assertNotIn("secret", a["trouble"])
        self.assertEqual(len(self.s.requests), 6)

    def test_token_goes_to_its_origin_only(self):
        """Another port, another name of the same address, and back."""
        with Server({"/f": CONTENT}) as other:
            token = " bearer=" + SECRET
            a = ask("%s 0 10 500%s" % (self.to(self.s.url("/f")), token))
            self.assertEqual(a["result"], "ok")
            self.assertEqual([r.headers.get("authorization") for r in self.s.requests], ["Bearer " + SECRET] * 2)
            self.s.reset_log()
            self.assertEqual(ask("%s 0 10 500%s" % (self.to(other.url("/f")), token))["result"], "ok")
            self.assertEqual(ask("%s 0 10 500%s" % (self.to(self.s.url("/f", "localhost")), token))["result"], "ok")
            self.assertNotIn("authorization", other.requests[0].headers)
            self.assertEqual([r.headers.get("authorization") for r in self.s.requests],
                             ["Bearer " + SECRET, "Bearer " + SECRET, None])

    def test_password_of_the_url(self):
        url = self.to(self.s.url("/f")).replace("http://", "http://me:pass%40word@")
        self.assertEqual(ask("%s 0 10 500" % url)["result"], "ok")
        self.assertEqual([r.headers.get("authorization") for r in self.s.requests], ["Basic bWU6cGFzc0B3b3Jk"] * 2)
        self.s.reset_log()
        with Server({"/f": CONTENT}) as other:
            for to in (other.url("/f"), other.url("/f").replace("//", "//they:know@")):
                url = self.to(to).replace("http://", "http://me:password@", 1)
                a = ask("%s 0 10 500" % url)
                self.assertEqual((a["result"], a["location"]), ("ok", other.url("/f")))
            self.assertEqual([r.headers.get("authorization") for r in other.requests], [None, None])

    def test_nothing_secret_in_sentences(self):
        for target in ("/none", "/f?do=reset", "/f?do=status&code=401", "/f?do=loop"):
            url = self.s.url(target).replace("//", "//me:password@") + ("&" if "?" in target else "?") + "X-Signature=abc"
            a = ask("%s 0 10 500 bearer=%s" % (url, SECRET), "tries=1")
            self.assertNotEqual(a["result"], "ok")
            for secret in (SECRET, "password", "X-Signature"):
                self.assertNotIn(secret, json.dumps(a))

    def test_what_the_hub_says(self):
        url = self.s.url("/r?do=hub&to=" + urllib.parse.quote(self.s.url("/f"), safe=""))
        a = ask("%s 0 10 500" % url)
        self.assertBytes(a, CONTENT[:500])
        self.assertEqual((a["linked_etag"], a["linked_size"], a["commit"]), ("ab" * 32, 123456, "c" * 40))
        self.assertEqual(a["total"], len(CONTENT))

    def test_control_characters_are_not_sent(self):
        for word in ("bearer", "accept", "validator", "known"):
            self.assertTrouble(self.ask("/f", "0 10 500 %s=a\x01b" % word), EIO, "is not asked")
        self.assertEqual(self.s.requests, [])


class Statuses(Base):
    def test_final(self):
        for code, want, text in ((400, EIO, "Bad Request"), (401, EIO, "Unauthorized"), (403, EIO, "Forbidden"),
                                 (404, ENOTFOUND, "Not Found"), (410, ENOTFOUND, "Gone"), (451, EIO, "Legal")):
            self.s.reset_log()
            a = self.ask("/f?do=status&code=%d" % code, "0 10 500")
            self.assertTrouble(a, want, r"sends back %d \(.*%s" % (code, text), "status")
            self.assertEqual((a["status"], len(self.s.requests)), (code, 1))
        self.assertTrouble(self.ask("/f?do=status&code=299", "0 10 500"), EIO, "sends back 299$", "status")

    def test_error_of_the_hub(self):
        a = self.ask("/f?do=status&code=403&error=GatedRepo", "0 10 500")
        self.assertEqual((a["error_code"], a["error_text"]), ("GatedRepo", "Access to it is restricted"))

    def test_passing(self):
        for code in (429, 500, 502, 503, 504):
            self.s.reset_log()
            a = self.ask("/f?do=status&code=%d&times=1" % code, "0 10 500")
            self.assertBytes(a, CONTENT[:500])
            self.assertEqual(len(self.s.requests), 2)

    def test_not_passing(self):
        a, took = client(["%s 0 10 500" % self.s.url("/f?do=status&code=500")])
        self.assertTrouble(a[0], EIO, r"sends back 500 \(Internal Server Error\) and did so 4 times", "status")
        self.assertEqual(len(self.s.requests), 4)
        waits = [b.when - a.when for a, b in zip(self.s.requests, self.s.requests[1:])]
        for wait, (low, high) in zip(waits, ((0.12, 0.38), (0.25, 0.75), (0.5, 1.5))):
            self.assertGreater(wait, low - 0.01)
            self.assertLess(wait, high + SLACK)

    def test_retry_after(self):
        for after in ("after=1", "in=2"):  # a date has whole seconds
            self.s.reset_log()
            a = self.ask("/f?do=status&code=429&times=1&" + after, "0 10 500")
            self.assertBytes(a, CONTENT[:500])
            self.assertEqual(len(self.s.requests), 2)
            self.assertGreater(self.s.requests[1].when - self.s.requests[0].when, 0.95)

    def test_retry_after_that_is_too_long(self):
        for after, text in (("after=120", "120"), ("in=3600", r"3\d\d\d"), ("after=18446744073709551614", "18446744073709551614")):
            self.s.reset_log()
            answers, took = client(["%s 0 10 500" % self.s.url("/f?do=status&code=429&" + after)])
            self.assertEqual(len(self.s.requests), 1)
            self.assertLess(took, SLACK)
            self.assertTrouble(answers[0], EIO, r"asks to wait %s s \(429 Too Many Requests\)" % text, "status")

    def test_retry_after_that_is_nonsense(self):
        for after in ("-5", "soon", "1.5", "1e9", "", "9" * 40):
            a = self.ask("/f?do=status&code=503&times=1&after=" + after, "0 10 500")
            self.assertBytes(a, CONTENT[:500])

    def test_all_wait_when_one_is_asked_to(self):
        """135 requests do not each have to be told."""
        lines = ["%s %d 10 100" % (self.s.url("/f?do=status&code=429&times=1&after=1" if i == 0 else "/f"), i * 100)
                 for i in range(40)]
        answers, _ = client(lines, "connections=1")
        self.assertEqual([a["result"] for a in answers], ["ok"] * 40)
        self.assertEqual(len(self.s.requests), 41)
        self.assertGreater(self.s.requests[1].when - self.s.requests[0].when, 0.95)

    def test_large_error_page(self):
        a, took = client(["%s 0 10 500" % self.s.url("/f?do=large_page")])
        self.assertTrouble(a[0], ENOTFOUND, "404", "status")
        self.assertLess(self.s.sent, 8 << 20)


class Broken(Base):
    def test_refused(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
            a = ask("http://127.0.0.1:%d/f 0 10 500" % port, "tries=2")
            self.assertTrouble(a, EIO, "the server 127.0.0.1:%d refuses the connection to port %d, 2 times" % (port, port))

    def test_name_without_address(self):
        a = ask("https://no-such-name.invalid/f 0 10 500")
        self.assertTrouble(a, EIO, "the server no-such-name.invalid was not found")

    def test_passing(self):
        """A range that broke off goes on where it was."""
        for do, second in (("short", "bytes=1250-1499"), ("reset_body", "bytes=1250-1499"),
                           ("reset_header", "bytes=1000-1499"), ("reset", "bytes=1000-1499")):
            self.s.reset_log()
            a = self.ask("/f?do=%s&times=1" % do, "1000 500 500")
            self.assertBytes(a, CONTENT[1000:1500])
            self.assertEqual([r.headers["range"] for r in self.s.requests], ["bytes=1000-1499", second])
            self.assertEqual(self.s.requests[1].headers.get("if-range"), '"e-f"' if "1250" in second else None)

    def test_without_validator_it_begins_again(self):
        self.s.etags["/f"] = None
        a = self.ask("/f?do=short&times=1", "1000 500 500")
        self.assertBytes(a, CONTENT[1000:1500])
        self.assertEqual([r.headers["range"] for r in self.s.requests], ["bytes=1000-1499"] * 2)

    def test_whole_begins_again(self):
        a = self.ask("/f?do=short_whole&times=1", "whole 200000")
        self.assertBytes(a, CONTENT)
        self.assertEqual(len(self.s.requests), 2)

    def test_not_passing(self):
        for do, sentence in (("reset", "broke off the connection before it answered, 3 times"),
                             ("reset_header", "broke off the connection before it answered, 3 times"),
                             ("short_whole", "broke off after 100000 of 200000 bytes, 3 times")):
            self.s.reset_log()
            what = "whole 200000" if "whole" in do else "1000 500 500"
            self.assertTrouble(self.ask("/f?do=" + do, what, "tries=3"), EIO, sentence)
            self.assertEqual(len(self.s.requests), 3)
        a = self.ask("/f?do=reset_body", "1000 500 500", "tries=3")  # halves of what is left
        self.assertTrouble(a, EIO, "broke off after 43[78] of 500 bytes, 3 times")

    def test_enough_before_it_broke_off(self):
        a = self.ask("/f?do=short", "1000 100 500")
        self.assertBytes(a, CONTENT[1000:1250])
        self.assertEqual(len(self.s.requests), 1)

    def test_not_http(self):
        for do in ("garbage", "old"):
            self.s.reset_log()
            self.assertTrouble(self.ask("/f?do=" + do, "0 10 500"), EFORMAT, "sends back what is not HTTP")
            self.assertEqual(len(self.s.requests), 1)

    def test_endless_header(self):
        for do in ("endless_header", "endless_line", "continues"):
            self.s.reset_log()
            a, took = client(["%s 0 10 500" % self.s.url("/f?do=" + do)])
            self.assertTrouble(a[0], EFORMAT, "header that does not end")
            self.assertEqual(len(self.s.requests), 1)
            self.assertLess(self.s.sent, 8 << 20)
            self.assertLess(took, SLACK)


class Memory(Base):
    """Each allocation fails, alone and with all after it: it is said, nothing is lost (the sanitizer's build looks for
    leaks), and the next call works."""

    def lines(self):
        to = urllib.parse.quote(self.s.url("/f"), safe="")
        return ["%s 0 10 500 bearer=abc accept=text/plain" % self.s.url("/r?do=redirect&to=" + to),
                "%s whole 200000" % self.s.url("/f?do=chunked").replace("//", "//me:word@"),
                "%s 0 10 500" % self.s.url("/none")]

    def test_each_allocation(self):
        answers, _ = client([*self.lines(), "", *self.lines(), ""], "show_allocations=1")
        self.assertEqual([a.get("result") for a in answers], ["ok", "ok", "status"] * 2 + [None])
        n = answers[-1]["allocations"]
        self.assertGreater(n, 30)
        for word in ("fail", "fail_from"):
            for at in range(1, n + 1):
                answers, _ = client([*self.lines(), "", *self.lines(), ""], "%s=%d" % (word, at), "show_allocations=1")
                if answers.pop()["allocations"] < at:  # the body came in larger pieces, which needs fewer
                    self.assertGreater(at, n - 6)
                    continue
                results = [a["result"] for a in answers]
                self.assertIn("error", results, at)
                self.assertEqual({a["code"] for a in answers if a["result"] == "error"}, {ENOMEM}, at)
                if word == "fail" and len(answers) > 1 and results[0] == "error":
                    self.assertEqual(results[1:], ["ok", "ok", "status"], at)


class Time(Base):
    """Never a hang: each of these would last for a minute, or for ever."""

    def check(self, target, what, sentence, low, high, *limits):
        a, took = client(["%s %s" % (self.s.url(target), what)], *limits)
        self.assertTrouble(a[0], EIO, sentence)
        self.assertGreater(took, low)
        self.assertLess(took, high + SLACK)

    def test_silent(self):
        self.check("/f?do=silent", "0 10 500", r"does not answer \(timed out after 1 s\)", 1, 1.2, "stall=1", "tries=1")
        self.check("/f?do=silent", "0 10 500", r"does not answer \(timed out after 1 s, 2 times\)", 2, 2.5, "stall=1",
                   "tries=2")

    def test_stops(self):
        self.check("/f?do=stop", "0 500 500", r"stopped sending after 250 of 500 bytes \(nothing came for 1 s\)", 1, 1.2,
                   "stall=1", "tries=1")

    def test_stops_once(self):
        a = self.ask("/f?do=stop&times=1", "0 500 500", "stall=1")
        self.assertBytes(a, CONTENT[:500])
        self.assertEqual(self.s.requests[1].headers["range"], "bytes=250-499")

    def test_slow_drip(self):
        self.check("/f?do=drip", "0 500 500", r"is too slow: \d+ of 500 bytes came in 2 s", 2, 2.2, "request=2")
        a = self.ask("/f?do=drip", "0 8 500", "request=2")  # what is needed came
        self.assertEqual(a["result"], "ok")
        self.assertBytes(a, CONTENT[:a["n"]])
        self.assertGreaterEqual(a["n"], 8)

    def test_slow_header(self):
        self.check("/f?do=drip_header", "0 500 500", r"does not answer \(timed out after 2 s\)", 2, 2.2, "request=2")

    def test_all_together(self):
        lines = ["%s 0 10 500" % self.s.url("/f?do=silent&n=%d" % i) for i in range(50)]
        answers, took = client(lines, "total=2", "connections=4")
        self.assertLess(took, 2 + SLACK)
        for a in answers:
            self.assertTrouble(a, EIO, "could not be asked for everything within 2 s")

    def test_environment(self):
        for value, low, high in (("1", 0.9, 2.5), ("0", None, None), ("soon", None, None)):
            limits = [] if low else ["request=2"]
            a, took = client(["%s 0 10 500" % self.s.url("/f?do=drip_header")], *limits, env={"VRAM_HTTP_TIMEOUT": value})
            self.assertEqual(a[0]["result"], "failed")
            self.assertLess(took, (high or 2) + SLACK)
            self.assertGreater(took, low or 1.9)

    def test_not_accepted(self):
        """A host whose queue of connections is full does not answer a SYN."""
        with socket.socket() as full:
            full.bind(("127.0.0.1", 0))
            full.listen(0)
            fillers = []
            for _ in range(4):
                c = socket.socket()
                c.setblocking(False)
                c.connect_ex(full.getsockname())
                fillers.append(c)
            time.sleep(0.1)
            a, took = client(["http://127.0.0.1:%d/f 0 10 500" % full.getsockname()[1]], "connect=1", "tries=1")
            for c in fillers:
                c.close()
        self.assertTrouble(a[0], EIO, r"does not answer \(timed out after 1 s\)")
        self.assertLess(took, 1 + SLACK)


class Plain(unittest.TestCase):
    """Which URLs are asked at all."""

    def test_http_to_others(self):
        for url in ("http://vram.invalid/f", "http://192.0.2.1/f", "http://[2001:db8::1]/f", "http://128.0.0.1/f",
                    "http://127.0.0.1.invalid/f", "http://localhost.invalid/f", "http://[::ffff:127.0.0.1]/f"):
            a = ask(url + " 0 10 500")
            self.assertEqual((a["result"], a["code"]), ("failed", EIO))
            self.assertIn("not encrypted", a["trouble"])
        a = ask("http://vram.invalid/f 0 10 500", "allow_http=1")
        self.assertIn("was not found", a["trouble"])

    def test_not_urls(self):
        for url in ("ftp://127.0.0.1/f", "file:///etc/passwd", "huggingface.co/f", "https://", "x", "a b",
                    "http://127.0.0.1:99999/", "\x01"):
            a = ask(url.replace(" ", "%20") + " 0 10 500")
            self.assertEqual((a["result"], a["code"]), ("failed", ESETTING), (url, a))
            self.assertIn(a["trouble"], ("this is not a URL", "only https and http can be asked"))

    def test_forms_of_loopback(self):
        with Server({"/f": CONTENT}) as s:
            for host in ("127.0.0.1", "localhost", "LOCALHOST", "0x7f.1", "2130706433"):
                self.assertEqual(ask("%s 0 10 500" % s.url("/f", host))["result"], "ok", host)

    def test_no_proxy_for_loopback(self):
        with Server({"/f": CONTENT}) as s:
            env = {"http_proxy": "http://127.0.0.1:9", "all_proxy": "http://127.0.0.1:9"}
            self.assertEqual(ask("%s 0 10 500" % s.url("/f"), env=env)["result"], "ok")

    def test_proxy(self):
        """It is asked for a tunnel; that it refuses is told as it is."""
        with Server() as s:
            s.answer = lambda c, r: c.reply(403)
            a = ask("https://vram.invalid/f 0 10 500 bearer=" + SECRET,
                    env={"https_proxy": "http://me:word@127.0.0.1:%d" % s.port})
            self.assertEqual((a["result"], a["code"]), ("failed", EIO))
            self.assertIn("is not reached through the proxy, which sends back 403 (Forbidden)", a["trouble"])
            self.assertNotIn("word", a["trouble"])
            self.assertEqual([(r.method, r.target) for r in s.requests], [("CONNECT", "vram.invalid:443")])
            self.assertNotIn(SECRET, str(s.requests[0].headers))


def openssl(*words):
    subprocess.run(["openssl", *words], check=True, capture_output=True)


class Certificates:
    """An authority and what it signed; made anew for each run."""

    def __init__(self, folder):
        self.folder = folder
        self.key = self.path("key.pem")
        openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", self.key)
        self.ca = self.path("ca.pem")
        openssl("req", "-x509", "-new", "-key", self.key, "-subj", "/CN=authority of a test", "-days", "2", "-out",
                self.ca)
        self.good = self.signed("good", "DNS:localhost,IP:127.0.0.1", 2)
        self.expired = self.signed("expired", "DNS:localhost,IP:127.0.0.1", -1)
        self.other_host = self.signed("other", "DNS:huggingface.co", 2)

    def path(self, name):
        return os.path.join(self.folder, name)

    def signed(self, name, names, days):
        request, extensions, out = self.path(name + ".csr"), self.path(name + ".ext"), self.path(name + ".pem")
        openssl("req", "-new", "-key", self.key, "-subj", "/CN=" + name, "-out", request)
        with open(extensions, "w") as f:
            f.write("subjectAltName=" + names + "\n")
        openssl("x509", "-req", "-in", request, "-CA", self.ca, "-CAkey", self.key, "-CAcreateserial", "-days", str(days),
                "-extfile", extensions, "-out", out)
        return out, self.key


class Tls(Base):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.certificates = Certificates(cls.folder)

    def trusting(self, name="SSL_CERT_FILE"):
        return {name: self.certificates.ca}

    def test_good(self):
        with Server({"/f": CONTENT}, tls=self.certificates.good) as s:
            for name in ("SSL_CERT_FILE", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE"):
                for host in ("localhost", "127.0.0.1"):
                    self.assertBytes(ask("%s 0 10 500" % s.url("/f", host), env=self.trusting(name)), CONTENT[:500])
            folder = os.path.join(self.folder, "authorities")
            os.makedirs(folder, exist_ok=True)
            shutil.copy(self.certificates.ca, folder)
            openssl("rehash", folder)
            for name in ("SSL_CERT_DIR", "REQUESTS_CA_BUNDLE"):
                self.assertBytes(ask("%s 0 10 500" % s.url("/f"), env={name: folder}), CONTENT[:500])

    def refused(self, certificate, sentence, env):
        with Server({"/f": CONTENT}, tls=certificate) as s:
            began = time.monotonic()
            a = ask("%s 0 10 500 bearer=%s" % (s.url("/f", "localhost"), SECRET), env=env)
            self.assertTrouble(a, EIO, "localhost:%d cannot be trusted, its certificate is not valid: .*%s"
                               % (s.port, sentence))
            self.assertIn("SSL_CERT_FILE", a["hint"])
            self.assertEqual(s.requests, [])
            self.assertEqual(s.connections, 1)  # not tried again
            self.assertLess(time.monotonic() - began, SLACK)

    def test_unknown_authority(self):
        self.refused(self.certificates.good, "(unable to get local issuer|self.signed)", {})

    def test_expired(self):
        self.refused(self.certificates.expired, "expired", self.trusting())

    def test_other_host(self):
        self.refused(self.certificates.other_host, "does ?n.t match|no alternative certificate subject", self.trusting())

    def test_no_file_of_authorities(self):
        with Server({"/f": CONTENT}, tls=self.certificates.good) as s:
            a = ask("%s 0 10 500" % s.url("/f"), env={"SSL_CERT_FILE": "/nowhere/ca.pem"})
            self.assertTrouble(a, EIO, "/nowhere/ca.pem")

    def test_not_tls(self):
        with socket.socket() as plain:
            plain.bind(("127.0.0.1", 0))
            plain.listen()
            def serve():
                c, _ = plain.accept()
                c.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
                c.recv(65536)
                c.close()
            threading.Thread(target=serve, daemon=True).start()
            a = ask("https://127.0.0.1:%d/f 0 10 500" % plain.getsockname()[1], "tries=1")
        self.assertTrouble(a, EIO, "makes no encrypted connection: .*wrong version")

    def test_from_https_to_http(self):
        with Server({"/f": CONTENT}, tls=self.certificates.good) as s:
            for to in ("http://vram.invalid/f", "http://192.0.2.1/f"):
                a = ask("%s 0 10 500" % s.url("/f?do=redirect&to=" + urllib.parse.quote(to, safe="")), env=self.trusting())
                self.assertTrouble(a, EIO, "which is not followed: that is not encrypted")

    def test_connections_are_kept(self):
        with Server({"/f": CONTENT}, tls=self.certificates.good) as s:
            lines = ["%s %d 10 100" % (s.url("/f"), i * 100) for i in range(100)]
            answers, _ = client([*lines, "", *lines], "connections=6", env=self.trusting())
            for i, a in enumerate(answers):
                self.assertBytes(a, CONTENT[i % 100 * 100:][:100])
            self.assertLessEqual(s.connections, 6)

    def test_closed_meanwhile(self):
        """Writing to a connection that is gone must not end the process by SIGPIPE."""
        with Server({"/f": CONTENT}, tls=self.certificates.good) as s:
            s.routes["/end"] = lambda c, r: (c.reply(200, [], b"x"), c.sock.shutdown(socket.SHUT_RDWR))
            line = "%s 0 1 1" % s.url("/end")
            answers, _ = client([line, "", line, "", line], env=self.trusting())
            self.assertEqual([a["result"] for a in answers], ["ok"] * 3)


@unittest.skipUnless(shutil.which("nginx"), "skipped: nginx is not installed")
class Http2(unittest.TestCase):
    """Against a server that is not ours."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        os.chmod(cls.folder, 0o755)
        cls.certificates = Certificates(cls.folder)

    def start(self, http2=True, streams=128, tls="TLSv1.2 TLSv1.3"):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        for name, data in (("f", CONTENT), ("large", LARGE)):
            with open(os.path.join(self.folder, name), "wb") as f:
                f.write(data)
        self.log = os.path.join(self.folder, "log")
        open(self.log, "w").close()
        temporary = " ".join("%s_temp_path %s/tmp;" % (k, self.folder)
                             for k in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        with open(os.path.join(self.folder, "conf"), "w") as f:
            f.write("""
daemon off; pid %(folder)s/pid; error_log %(folder)s/errors; worker_processes 1; master_process off;
events { worker_connections 512; }
http { %(temporary)s
  log_format c '$connection $server_protocol $status $body_bytes_sent $request_uri';
  access_log %(log)s c;
  server { listen 127.0.0.1:%(port)d ssl %(http2)s; http2_max_concurrent_streams %(streams)d;
    ssl_certificate %(certificate)s; ssl_certificate_key %(key)s; ssl_protocols %(tls)s; root %(folder)s;
    location /r/ { return 302 /f; }
    location /plain/ { max_ranges 0; alias %(folder)s/; } } }
""" % {"folder": self.folder, "temporary": temporary, "log": self.log, "port": self.port, "streams": streams, "tls": tls,
                "http2": "http2" if http2 else "", "certificate": self.certificates.good[0], "key": self.certificates.key})
        server = subprocess.Popen(["nginx", "-p", self.folder, "-e", os.path.join(self.folder, "errors"), "-c",
                                   os.path.join(self.folder, "conf")],
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(server.wait)
        self.addCleanup(server.terminate)
        for _ in range(100):
            with socket.socket() as s:
                if s.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.05)
        with open(os.path.join(self.folder, "errors")) as f:
            self.fail("nginx does not start: " + f.read())

    def logged(self, n):
        """[connection, protocol, status, bytes, target] of n requests; lines are written after the answer."""
        for _ in range(100):
            with open(self.log) as f:
                lines = [line.split() for line in f]
            if len(lines) >= n:
                break
            time.sleep(0.05)
        return lines

    def perform(self, folder="r", calls=1):
        lines = ["https://localhost:%d/%s/%d %d 10 500" % (self.port, folder, i, i * 1000) for i in range(135)]
        answers, took = client(["\n\n".join(["\n".join(lines)] * calls)], env={"SSL_CERT_FILE": self.certificates.ca})
        self.assertEqual(len(answers), 135 * calls)
        for i, a in enumerate(answers):
            self.assertEqual((a["result"], a["digest"]), ("ok", digest(CONTENT[i % 135 * 1000:][:500])), a)
        return self.logged(270 * calls)

    def test_one_connection(self):
        """135 shards, each through a redirect, twice: 540 requests over one connection."""
        for tls in ("TLSv1.2", "TLSv1.3"):
            with self.subTest(tls):
                self.start(tls=tls)
                lines = self.perform(calls=2)
                self.assertEqual(len(lines), 540)
                self.assertEqual({line[1] for line in lines}, {"HTTP/2.0"})
                self.assertEqual(len({line[0] for line in lines}), 1)

    def test_server_that_allows_few_at_once(self):
        self.start(streams=16)
        lines = self.perform()
        self.assertEqual(len(lines), 270)
        self.assertLessEqual(len({line[0] for line in lines}), 24)

    def test_http1(self):
        self.start(http2=False)
        lines = self.perform()
        self.assertEqual(len(lines), 270)
        self.assertEqual({line[1] for line in lines}, {"HTTP/1.1"})
        self.assertLessEqual(len({line[0] for line in lines}), 24)

    def test_whole_file_for_a_range(self):
        """Cutting one answer off leaves the others and the connection alone."""
        self.start()
        line = "https://localhost:%d/%%s 0 10 500" % self.port
        answers, _ = client([line % "plain/large", line % "f", line % "plain/large", "", line % "f"],
                            env={"SSL_CERT_FILE": self.certificates.ca})
        for a, data in zip(answers, (LARGE, CONTENT, LARGE, CONTENT)):
            self.assertEqual((a["result"], a["digest"]), ("ok", digest(data[:500])), a)
        lines = self.logged(4)
        self.assertEqual(len({line[0] for line in lines}), 1)

    def test_whole_file_for_a_range_is_not_read(self):
        self.start()
        a, _ = client(["https://localhost:%d/plain/large 0 10 500" % self.port],
                      env={"SSL_CERT_FILE": self.certificates.ca})
        self.assertEqual((a[0]["result"], a[0]["digest"]), ("ok", digest(LARGE[:500])))
        self.assertLess(int(self.logged(1)[0][3]), 8 << 20)  # what the system's buffers take


if __name__ == "__main__":
    unittest.main()
