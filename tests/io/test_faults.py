#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Servers that misbehave, as the command shows them: for each place a model may be at, the sentence, the hint, the exit
status and the time; nothing secret is told or kept. What single requests do is in test_http.py.

    VRAM=path/to/vram python3 test_faults.py [CLASS...]
"""
import concurrent.futures
import hashlib
import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.parse

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from hub_server import SIGNATURE, Hub  # noqa: E402
from server import Gone, Server  # noqa: E402
from test_hub import gguf, safetensors, sharded  # noqa: E402

VRAM = os.environ['VRAM']
LIMIT = 2  # seconds, VRAM_HTTP_TIMEOUT
SLACK = 6  # that a busy machine may take for nothing
SECRETS = ('hf_good', 's1gn4ture')
SMALL = safetensors({'a': 900000})
LARGE = safetensors({'a': 900}, 3 << 20)  # its header takes several requests
MIB = 1 << 20


def quoted(text):
    return urllib.parse.quote(text, safe='')


# What the server of the files does: (begin of the address, status, begin of the reason, a word of the hint).
# The status 0 means that the model is read all the same.
NO_ADDRESS = 'redirects to an address, which is not followed: '
FILE_FAULTS = [
    ('/small?do=whole', 0, '', ''),
    ('/small?do=short&times=1', 0, '', ''),
    ('/small?do=reset_body&times=1', 0, '', ''),
    ('/small?do=reset_header&times=1', 0, '', ''),
    ('/small?do=status&code=429&after=1&times=1', 0, '', ''),
    ('/small?do=status&code=503&times=1', 0, '', ''),
    ('/http10', 0, '', ''),
    ('/chunked206', 0, '', ''),
    ('/small?do=range_text&text=' + quoted('bytes 5-9/%d' % len(SMALL)), 3, 'sends another part', 'download the file'),
    ('/small?do=range_text&text=' + quoted('bytes 0-9/%d' % len(SMALL)), 3, 'sends another part', 'download the file'),
    ('/small?do=range_text&text=' + quoted('bytes 0-65535/77'), 3, 'sends another part', 'download the file'),
    ('/small?do=range_text&text=' + quoted('lines 1-2'), 3, 'sends another part', 'download the file'),
    ('/small?do=range_text', 3, 'sends another part', 'download the file'),
    ('/small?do=compressed', 3, 'sends the file compressed', 'download the file'),
    ('/small?do=garbage', 3, 'sends back what is not HTTP', 'address right'),
    ('/small?do=old', 3, 'sends back what is not HTTP', 'address right'),
    ('/small?do=endless_header', 3, 'sends a header that does not end', 'address right'),
    ('/small?do=endless_line', 3, 'sends a header that does not end', 'address right'),
    ('/lying', 3, 'sends another part', 'download the file'),
    # where the computer was so busy that the 2 s of the whole were over first, that is what is said
    ('/small?do=drip', 4, '(is too slow: [0-9]+ of [0-9]+ bytes came in 2 s|could not be asked for everything within 2 s)', 'VRAM_HTTP_TIMEOUT'),
    ('/small?do=drip_header', 4, '(does not answer .timed out after 2 s|could not be asked for everything within 2 s)', 'is there a network|VRAM_HTTP_TIMEOUT'),
    ('/small?do=silent', 4, '(does not answer .timed out after 2 s|could not be asked for everything within 2 s)', 'is there a network|VRAM_HTTP_TIMEOUT'),
    ('/small?do=stop', 4, '(is too slow: [0-9]+ of [0-9]+ bytes|could not be asked for everything within 2 s)', 'VRAM_HTTP_TIMEOUT'),
    ('/small?do=reset', 4, 'broke off the connection before it answered, [2-4] times', 'later'),
    ('/small?do=reset_header', 4, 'broke off the connection before it answered, [2-4] times', 'later'),
    ('/closed', 4, 'broke off the connection before it answered', 'later'),
    ('/small?do=lost', 4, 'redirects to nowhere', 'login page'),
    ('/circle', 4, 'redirects without end', 'login page'),
    ('/ping', 4, 'redirects without end', 'login page'),
    ('/small?do=redirect&to=' + quoted('file:///etc/passwd'), 4, NO_ADDRESS + 'only https', 'login page'),
    ('/small?do=redirect&to=' + quoted('ftp://127.0.0.1/x'), 4, NO_ADDRESS + 'only https', 'login page'),
    ('/small?do=redirect&to=' + quoted('http://[::1'), 4, NO_ADDRESS + 'this is not', 'login page'),
    ('/small?do=redirect&to=' + quoted('http://192.0.2.1/x'), 4, 'redirects to 192.0.2.1, .*not encrypted', '--allow-http'),
    ('/small?do=redirect&to=' + quoted('http://u:s1gn4ture@127.0.0.1:1/x'), 4, 'refuses the connection', 'running'),
    ('/small?do=status&code=404', 4, 'sends back 404 .Not Found', 'spelling'),
    ('/small?do=status&code=416', 4, 'sends back 416', 'address right'),
    ('/small?do=status&code=429&after=1000', 4, 'asks to wait 1000 s .429 Too Many', 'try again then'),
    ('/small?do=status&code=500', 4, 'sends back 500 .* [2-4] times', 'later'),
    ('/small?do=status&code=502', 4, 'sends back 502 .* [2-4] times', 'later'),
    ('/small?do=status&code=503&after=99999999999999999999', 4, 'sends back 503', 'later'),
    ('/small?do=large_page', 4, 'sends back 404', 'spelling'),
    ('/large?do=changing', 4, 'the file changed while it was read', 'try again'),
    ('/st60', 3, 'the header has 1,152,921,504,606,846,976 bytes, over', ''),
]


class Faulty(Server):
    def __init__(self):
        super().__init__({'/small': SMALL, '/large': LARGE, '/cut': SMALL[:50]})
        self.other = Server()
        self.other.routes['/pong'] = lambda c, r: c.reply(302, [('Location', self.url('/ping?' + r.target[-9:]))])
        self.routes.update({'/' + name[6:]: getattr(self, name) for name in dir(self) if name.startswith('route_')})

    def __exit__(self, *_):
        self.other.__exit__()
        super().__exit__()

    def part(self, r):
        first, end = r.range(len(SMALL))
        return SMALL[first:end], b'Content-Range: bytes %d-%d/%d\r\n' % (first, end - 1, len(SMALL))

    def route_ping(self, c, r):
        c.reply(302, [('Location', self.other.url('/pong?x'))])

    def route_circle(self, c, r):
        c.reply(302, [('Location', self.url(r.target))])

    def route_closed(self, c, r):
        raise Gone

    def route_http10(self, c, r):
        body, lines = self.part(r)
        c.send(b'HTTP/1.0 206 Partial\r\n' + lines + b'\r\n' + body)
        raise Gone

    def route_chunked206(self, c, r):
        body, lines = self.part(r)
        c.send(b'HTTP/1.1 206 Partial\r\nTransfer-Encoding: chunked\r\n' + lines +
               b'\r\n%x\r\n%s\r\n0\r\n\r\n' % (len(body), body))

    def route_lying(self, c, r):
        body, lines = self.part(r)
        c.send(b'HTTP/1.1 206 Partial\r\nContent-Length: 5\r\n' + lines + b'\r\n' + body)
        raise Gone

    def route_huge(self, c, r):
        """15 GB to whoever asks for a range."""
        c.reply(200, [('Content-Length', 15 * 10**9)], length=False)
        c.send(SMALL[:65536])
        while True:
            c.send(bytes(1 << 20))

    def route_st60(self, c, r):
        n = 1 << 60
        first, end = r.range(n + 108)
        c.reply(206, [self.content_range(first, end, n + 108)], (n.to_bytes(8, 'little') + b'{' + b' ' * MIB)[first:end])


class Case(unittest.TestCase):
    def setUp(self):
        self.home = tempfile.mkdtemp(prefix='vram-faults-')
        self.addCleanup(shutil.rmtree, self.home)
        self.hub = self.enterContext(Hub())

    def env(self, home=None, **more):
        keep = {k: v for k, v in os.environ.items() if k == 'PATH' or k.startswith(('ASAN', 'UBSAN', 'LSAN'))}
        return {**keep, 'HOME': home or self.home, 'LC_ALL': 'C', 'HF_TOKEN': 'hf_good', 'HF_ENDPOINT': self.hub.url,
                'VRAM_HTTP_TIMEOUT': str(LIMIT), **more}

    def vram(self, *words, home=None, **env):
        began = time.monotonic()
        done = subprocess.run([VRAM, *words], env=self.env(home, **env), capture_output=True, text=True, timeout=120)
        done.took = time.monotonic() - began
        texts = [done.stdout, done.stderr]
        for folder, _, names in os.walk(home or self.home):
            for name in names:
                with open(os.path.join(folder, name), 'rb') as f:
                    texts.append(f.read().decode('latin-1'))
        for secret in SECRETS:
            self.assertNotIn(secret, ''.join(texts), words)
        return done

    def hint(self, done):
        return ''.join(re.findall('^vram: hint: (.*)$', done.stderr, re.M))

    def refused(self, status, text, *words, hint='', **env):
        done = self.vram(*words, **env)
        self.assertEqual((done.returncode, done.stdout), (status, ''), done.stderr)
        self.assertRegex(done.stderr, text)
        self.assertRegex(self.hint(done), hint or '^', done.stderr)
        return done


class Files(Case):
    """Every fault of the server that has the files, behind every kind of place."""

    def place(self, kind, i, target, size):
        """What is typed, for a model whose file of weights is at `target` of the server."""
        url = self.s.url('%s%s%s&n=%s%d' % (target, '&' if '?' in target else '?', SIGNATURE, kind, i))
        name = 'org/m%d' % i
        if kind == 'address':
            return url
        if kind == 'ollama':
            digest = 'sha256:' + hashlib.sha256(target.encode()).hexdigest()
            layer = {'mediaType': 'application/vnd.ollama.image.model', 'digest': digest, 'size': size}
            manifest = json.dumps({'layers': [layer]}).encode()
            self.s.routes['/v2/%s/manifests/latest' % name] = lambda c, r: c.reply(200, [], manifest)
            self.s.routes['/v2/%s/blobs/%s' % (name, digest)] = lambda c, r: c.reply(307, [('Location', url)])
            return 'ollama:127.0.0.1:%d/%s' % (self.s.port, name)
        self.hub.add(name, {'model.safetensors': SMALL, 'config.json': b'{}'}, says={'model.safetensors': size})
        self.hub.elsewhere[name, 'model.safetensors'] = url
        return name

    def one(self, kind, i, command):
        target, status, text, hint = FILE_FAULTS[i]
        size = len(LARGE) if 'large?' in target else (1 << 60) + 108 if 'st60' in target else len(SMALL)
        home = os.path.join(self.home, kind, str(i))
        os.makedirs(home)
        seconds = LIMIT if ' 2 s' in text or 'slow' in text else 30
        done = self.vram(*command, self.place(kind, i, target, size), home=home, VRAM_HTTP_TIMEOUT=str(seconds))
        what = '%s of %s: %d, %s%s' % (target, kind, done.returncode, done.stderr, done.stdout)
        self.assertLess(done.took, LIMIT + SLACK, what)  # of 30 too: what is final is not waited for
        if status == 0:
            self.assertIn(done.returncode, (0, 3), what)
            self.assertNotIn('vram: error', done.stderr, what)
            self.assertIn('900,000 parameters', done.stdout, what)
            return
        self.assertEqual((done.returncode, done.stdout), (status, ''), what)
        self.assertRegex(done.stderr, r'\Avram: error: .*' + text, what)
        self.assertRegex(self.hint(done), hint or '^', what)
        self.assertEqual(len(re.findall('^vram: error', done.stderr, re.M)), 1, what)

    def test_all(self):
        self.s = self.enterContext(Faulty())
        runs = []
        with concurrent.futures.ThreadPoolExecutor(12) as pool:
            for kind in ('hub', 'address', 'ollama'):
                runs += [pool.submit(self.one, kind, i, ['inspect']) for i in range(len(FILE_FAULTS))]
            for run in runs:
                run.result()

    def test_fit(self):
        """The other command that opens models, on some of them."""
        self.s = self.enterContext(Faulty())
        for i, row in enumerate(FILE_FAULTS):
            if row[1] != 0 and ('garbage' in row[0] or 'lost' in row[0] or 'code=404' in row[0] or 'changing' in row[0]):
                self.one('hub', i, ['fit', '--gpu', 'rtx-4090'])

    def test_not_more_than_asked_for(self):
        """Of 15 GB, what the sockets between hold and not more."""
        self.s = self.enterContext(Faulty())
        for kind, i in (('hub', 0), ('ollama', 1), ('address', 2)):
            self.s.reset_log()
            done = self.vram('inspect', self.place(kind, i, '/huge', 15 * 10**9))
            self.assertEqual(done.returncode, 3)
            self.assertIn('the file goes on for 14,996,399,920 bytes after its last tensor', done.stderr)
            self.assertLess(self.s.sent, 24 * MIB)

    def test_cut_since_it_was_listed(self):
        self.s = self.enterContext(Faulty())
        self.refused(4, 'listing says that the file has 3600080 bytes, the server that has it says 50', 'inspect',
                     self.place('hub', 0, '/cut', len(SMALL)), hint='try again')
        self.refused(4, 'listing says', 'inspect', self.place('ollama', 1, '/cut', len(SMALL)), hint='try again')

    def test_changed_is_not_kept(self):
        """What was kept of a file that changed would be mixed with the rest of the new one the next time."""
        self.s = self.enterContext(Faulty())
        for kind, i in (('hub', 0), ('address', 1), ('ollama', 2)):
            self.s.routes.pop('/large', None)
            name = self.place(kind, i, '/large?do=changing', len(LARGE))
            for _ in range(2):
                self.refused(4, 'the file changed while it was read', 'inspect', name)
            self.s.routes['/large'] = lambda c, r: self.s.good(c, r)
            new = safetensors({'b': 600, 'c': 300}, 3 << 20)
            self.s.files['/large'] = safetensors({'b': 600, 'c': 300}, (3 << 20) - len(new) + len(LARGE))
            self.s.etags['/large'] = '"new"'
            done = self.vram('inspect', '--json', name)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(json.loads(done.stdout)['tensors'], 2)

    def test_commit(self):
        """An answer of another commit than the list of files."""
        repo = self.hub.add('org/name', {'model.safetensors': SMALL})
        listed, repo.commit = repo.commit, 'b' * 40
        repo.revisions.append(listed)
        repo.answer = json.dumps({'id': 'org/name', 'sha': listed, 'siblings': [
            {'rfilename': 'model.safetensors', 'size': len(SMALL)}]}).encode()
        self.refused(4, 'sends the file of commit bbbbbbbbbbbb, and %s was asked for' % listed[:12], 'inspect',
                     'org/name', hint='try again')


class Listings(Case):
    """Lists of files that no hub would send."""

    def answer(self, answer, files=None):
        repo = self.hub.add('org/name', files or {'model.safetensors': SMALL})
        repo.answer = answer if isinstance(answer, bytes) else json.dumps(
            {'id': 'org/name', 'sha': 'a' * 40, 'siblings': answer}).encode()
        repo.commit = 'a' * 40

    def memory(self, *words):
        """Status, stderr and the MiB that it took at most, which a small process reports."""
        script = ('import os,resource,subprocess,sys\n'
                  'r = subprocess.run(sys.argv[1:])\n'
                  'print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10)\n'
                  'sys.exit(r.returncode)')
        done = subprocess.run([sys.executable, '-c', script, VRAM, *words], env=self.env(VRAM_HTTP_TIMEOUT='30'),
                              capture_output=True, text=True, timeout=120)
        most = int(done.stdout.splitlines()[-1])
        return done.returncode, done.stderr, 0 if 'ASAN_OPTIONS' in os.environ else most

    def bounded(self, mib, status, text, *words):
        got, err, most = self.memory(*(words or ('inspect', 'org/name')))
        self.assertEqual(got, status, err)
        self.assertRegex(err, text)
        self.assertLess(most, mib * (3 if os.environ.get('SANITIZED') else 1), err)  # shadow memory and red zones

    def test_types(self):
        good = {'rfilename': 'model.safetensors', 'size': len(SMALL)}
        for bad in ([7], [[]], [None], [{}], [{'size': 7}]):
            self.answer(bad)
            self.refused(3, 'no weight files', 'inspect', 'org/name')
        self.answer([{'rfilename': None}])
        self.refused(3, 'the name of a file is none', 'inspect', 'org/name', hint='HF_ENDPOINT')
        for bad in ('9' * 100000, '1e999', '-0.5', '[]', '"3600080"', 'true', '18446744073709551616'):
            self.answer(json.dumps({'sha': 'a' * 40, 'siblings': [good]}).replace(str(len(SMALL)), bad, 1).encode())
            self.refused(3, 'the size of a file is no number of bytes', 'inspect', 'org/name', hint='HF_ENDPOINT')
        for odd in ({'sha': 7}, {'sha': 'A' * 40}, {'sha': 'a' * 39}, {'id': 7}, {'sha': None, 'id': None}):
            self.answer(json.dumps({'id': 'org/name', 'sha': 'a' * 40, 'siblings': [good], **odd}).encode())
            self.hub.repos['org/name'].revisions = ['main']
            self.assertEqual(self.vram('inspect', 'org/name').returncode, 0, odd)
        for text, why in ((b'{"siblings":[{"rfilename":"\\ud800"}]}', 'surrogate'), (b'{"siblings":["\xff"]}', 'UTF-8'),
                          (b'[]', 'no list'), (b'null', 'no list')):
            self.answer(text)
            self.refused(3, why, 'inspect', 'org/name', hint='HF_ENDPOINT')

    def test_sizes_of_lists(self):
        self.answer([{'rfilename': '%d.txt' % i, 'size': 1} for i in range(500000)])
        self.bounded(100, 3, 'over 100000 files')
        self.answer(b'{"siblings":[' + b' ' * (64 * MIB) + b']}')
        self.bounded(60, 3, 'over the limit of 67108864')
        self.answer(b'{"siblings":[' + b' ' * (64 * MIB - 20) + b']}')
        self.bounded(150, 3, 'no weight files')
        self.answer(b'[' * (64 * MIB - 20))
        self.bounded(150, 3, 'nested more than 64 deep')
        self.answer([{'rfilename': 'x%d.safetensors' % i, 'size': 1 << 40} for i in range(99999)])
        self.bounded(400, 2, 'choose one with --file')

    def test_index_of_many(self):
        """An index that names 99,999 shards, none of which is there."""
        weight_map = {'t%d' % i: 'model-%05d-of-99999.safetensors' % i for i in range(1, 100000)}
        index = json.dumps({'weight_map': weight_map}).encode()
        one = {'model-00001-of-99999.safetensors': SMALL}
        self.answer([{'rfilename': n, 'size': len(d)} for n, d in one.items()], one)
        self.hub.add('org/index', {'model.safetensors.index.json': index, **one})
        self.bounded(200, 3, 'index places tensor t1 in', 'inspect', 'org/index')
        self.hub.static['/x/model.safetensors.index.json'] = index
        self.bounded(100, 3, 'index names over 2000 files', 'inspect',
                     self.hub.files_url + '/x/model.safetensors.index.json')

    def test_faults_of_the_api(self):
        """The list itself does not come."""
        with Server() as s:
            paths = ['/api/models/org/m%d/revision/main' % i for i in range(4)]
            s.routes[paths[0]] = lambda c, r: s.do_silent(c, r)
            s.routes[paths[1]] = lambda c, r: c.reset()
            s.routes[paths[2]] = lambda c, r: c.reply(503, [('Retry-After', '77')])
            s.routes[paths[3]] = lambda c, r: c.reply(302, [('Location', 'https://user:s1gn4ture@127.0.0.1:1/login')])
            for i, text in enumerate(('does not answer .timed out after 2 s', 'broke off the connection',
                                      'asks to wait 77 s', 'refuses the connection to port 1')):
                done = self.refused(4, text, 'inspect', 'org/m%d' % i, HF_ENDPOINT=s.url(''))
                self.assertNotEqual(self.hint(done), '')
                self.assertLess(done.took, LIMIT + SLACK)


class Waiting(Case):
    """What people see on a terminal while a slow server sends."""

    def on_terminal(self, words, interrupt=None, **env):
        pid, fd = pty.fork()
        if pid == 0:
            os.execvpe(words[0], words, self.env(**env))
        out, began = b'', time.monotonic()
        while True:
            if interrupt is not None and interrupt in out:
                os.write(fd, b'\x03')
                interrupt = None
            try:
                if select.select([fd], [], [], 0.1)[0]:
                    out += os.read(fd, 65536)
            except OSError:
                break
            self.assertLess(time.monotonic() - began, 60)
        os.close(fd)
        return os.waitpid(pid, 0)[1], out.decode()

    def slow(self):
        """3 MiB in 3 seconds; a model of 3.6 MB."""
        body = safetensors({'a': 900000}, 3 * MIB)
        s = self.enterContext(Server())

        def send(c, r):
            first, end = r.range(len(body))
            c.reply(206, [s.content_range(first, end, len(body)), ('Content-Length', end - first)], length=False)
            for at in range(first, end, MIB // 10):
                c.send(body[at:min(at + MIB // 10, end)])
                time.sleep(0.1)
        s.routes['/m.safetensors'] = send
        return s.url('/m.safetensors')

    def test_line(self):
        status, out = self.on_terminal([VRAM, 'inspect', self.slow()], VRAM_HTTP_TIMEOUT='60')
        self.assertEqual(status, 0, out)
        told = re.findall(r'\r\x1b\[Kvram: ([0-9.]+) MB of headers read, ([0-9.]+) MB need not be downloaded', out)
        self.assertGreater(len(told), 3, out)
        for read, rest in told:
            self.assertAlmostEqual(float(read) + float(rest), 6.7, delta=0.2)
        self.assertIn('\r\x1b[K', out[out.rindex('downloaded'):])  # it is taken away

    def test_no_terminal(self):
        done = self.vram('inspect', self.slow(), VRAM_HTTP_TIMEOUT='60')
        self.assertEqual((done.returncode, done.stderr), (0, ''))

    def test_interrupt(self):
        url = self.slow()
        status, out = self.on_terminal([VRAM, 'inspect', url], b'headers read', VRAM_HTTP_TIMEOUT='60')
        self.assertEqual(os.WTERMSIG(status), signal.SIGINT, out)
        self.assertTrue(out.endswith('\r\x1b[K'), out)
        cache = os.path.join(self.home, '.cache', 'vram')
        for name in os.listdir(cache) if os.path.isdir(cache) else []:
            self.assertTrue(name.endswith('.headers'), name)

    def test_silent(self):
        with Server({'/m.safetensors': SMALL}) as s:
            status, out = self.on_terminal([VRAM, 'inspect', s.url('/m.safetensors?do=silent')], VRAM_HTTP_TIMEOUT='3')
        self.assertEqual(os.WEXITSTATUS(status), 4)
        self.assertIn('vram: waiting for an answer', out)


if __name__ == '__main__':
    unittest.main()
