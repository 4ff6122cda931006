#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The command and its cache of headers when things go wrong: killed in the middle, no network, a full disk, a cache that
cannot be written, damage, many processes at once. The answer must be the same each time, and nothing may be said of it.

    VRAM=path/to/vram python3 test_cache_command.py
"""
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from test_ollama import Registry, digest, gguf, layer  # noqa: E402

VRAM = os.environ['VRAM']


def can_mount():
    if shutil.which('unshare') is None:
        return False
    with tempfile.TemporaryDirectory() as d:
        return subprocess.run(['unshare', '-m', 'mount', '-t', 'tmpfs', 'none', d],
                              capture_output=True).returncode == 0


class Command(unittest.TestCase):
    def setUp(self):
        self.root = tempfile.mkdtemp(prefix='vram-cache-')
        self.cache = os.path.join(self.root, 'cache')
        self.registry = Registry()
        self.model = gguf(tensors=200, pad=200000)  # a header over 200 KB
        self.registry.put('library/a', '7b', [self.model], [layer('model', self.model)])
        self.words = [VRAM, 'inspect', 'ollama:%s/library/a:7b' % self.registry.host]
        self.expected = self.run_it(VRAM_CACHE='/dev/null')
        self.assertIn('200 tensors', self.expected)

    def tearDown(self):
        self.registry.close()
        shutil.rmtree(self.root)

    def env(self, **more):
        keep = {k: v for k, v in os.environ.items() if k == 'PATH' or k.startswith(('ASAN', 'UBSAN', 'LSAN'))}
        return {**keep, 'VRAM_CACHE': self.cache, 'OLLAMA_MODELS': self.root + '/none', **more}

    def run_it(self, *more, before=(), limit=None, **env):
        del self.registry.requests[:]
        done = subprocess.run([*before, *self.words, *more], env=self.env(**env), capture_output=True, text=True,
                              timeout=60, preexec_fn=limit)
        self.assertEqual((done.returncode, done.stderr), (0, ''))
        return done.stdout

    def expect(self, *args, **more):
        kept = 'read from headers kept of ' if '--offline' in args else 'read from '
        self.assertEqual(self.run_it(*args, **more), self.expected.replace('read from ', kept))

    def blob_requests(self):
        return [r for r in self.registry.requests if r[0] == 'blobs']

    def entries(self):
        return sorted(os.path.join(self.cache, n) for n in os.listdir(self.cache))

    def test_second_time(self):
        self.expect()
        self.assertTrue(self.blob_requests())
        self.expect()
        self.assertEqual(self.blob_requests(), [])
        self.expect('--refresh')
        self.assertTrue(self.blob_requests())

    def test_offline(self):
        done = subprocess.run([*self.words, '--offline'], env=self.env(), capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stdout), (4, ''))
        self.assertIn('no server may be asked', done.stderr)
        self.expect()
        self.registry.close()
        self.expect('--offline')
        self.registry = Registry()

    def test_killed(self):
        """At any moment: what the next one finds is sound."""
        start = time.monotonic()
        self.expect()
        longest = time.monotonic() - start
        shutil.rmtree(self.cache)
        r = random.Random(1)
        for _ in range(25):
            p = subprocess.Popen(self.words, env=self.env(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(r.uniform(0, longest))
            p.send_signal(signal.SIGKILL)
            p.wait()
            if r.random() < 0.3:
                self.expect()
                shutil.rmtree(self.cache)
        self.expect()
        self.expect('--offline')

    def test_damage(self):
        self.expect()
        r = random.Random(2)
        good = {}
        for path in self.entries():
            with open(path, 'rb') as f:
                good[path] = f.read()
        for _ in range(20):
            for path, data in good.items():
                bad = bytearray(data)
                bad[r.randrange(len(bad))] ^= 1 << r.randrange(8)
                with open(path, 'wb') as f:
                    f.write(bad if r.random() < 0.7 else bad[:r.randrange(len(bad))])
            self.expect()
            self.assertTrue(self.blob_requests())  # not believed
        self.expect('--offline')  # and mended

    def test_file_in_place(self):
        with open(self.cache, 'w') as f:
            f.write('mine')
        self.expect()
        with open(self.cache) as f:
            self.assertEqual(f.read(), 'mine')
        self.expect(VRAM_CACHE=self.cache + '/below/it')
        self.expect(VRAM_CACHE='/proc/none/of/it')
        self.expect(VRAM_CACHE='')  # no home either

    @unittest.skipUnless(os.geteuid() == 0, 'needs root, to give a folder to another user')
    def test_of_another_user(self):
        """What others can write is not believed, and nothing is put there."""
        self.expect()
        os.chown(self.cache, 1234, 1234)
        before = {path: os.stat(path).st_mtime_ns for path in self.entries()}
        self.expect()
        self.assertTrue(self.blob_requests())
        self.assertEqual({path: os.stat(path).st_mtime_ns for path in self.entries()}, before)

    @unittest.skipUnless(can_mount(), 'needs root, to mount a file system')
    def test_read_only(self):
        os.mkdir(self.cache, 0o700)
        script = 'mount -t tmpfs -o ro,mode=0700 none "$VRAM_CACHE" && exec "$@"'
        self.expect(before=['unshare', '-m', 'sh', '-c', script, 'sh'])
        self.assertEqual(self.entries(), [])

    @unittest.skipUnless(can_mount(), 'needs root, to mount a file system')
    def test_full_disk(self):
        """64 KiB for a header of 200: nothing half written is left."""
        os.mkdir(self.cache, 0o700)
        script = 'mount -t tmpfs -o size=64k,mode=0700 none "$VRAM_CACHE" && "$@" && ls -A "$VRAM_CACHE" >&3'
        with tempfile.TemporaryFile() as left:
            done = subprocess.run(['unshare', '-m', 'sh', '-c', script.replace('&3', '&%d' % left.fileno()), 'sh',
                                   *self.words], env=self.env(), capture_output=True, text=True,
                                  pass_fds=[left.fileno()], timeout=60)
            self.assertEqual((done.returncode, done.stderr, done.stdout), (0, '', self.expected))
            left.seek(0)
            names = left.read().decode().split()
        self.assertEqual([n for n in names if not n.endswith('.headers')], [])
        self.assertEqual(len(names), 1)  # the manifest

    def test_limited_files(self):
        self.expect(limit=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (50000, 50000)))
        self.assertEqual(len(self.entries()), 1)

    def test_many_at_once(self):
        for _ in range(3):
            running = [subprocess.Popen(self.words, env=self.env(), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        text=True) for _ in range(6)]
            for p in running:
                out, err = p.communicate(timeout=60)
                self.assertEqual((p.returncode, err, out), (0, '', self.expected))
            self.assertEqual(len(self.entries()), 2)  # the manifest and the header, nothing temporary
            self.expect('--offline')
            os.unlink(max(self.entries(), key=os.path.getsize))

    def test_nothing_secret(self):
        self.expect()
        for path in self.entries():
            self.assertEqual(os.stat(path).st_mode & 0o777, 0o600)
            with open(path, 'rb') as f:
                self.assertNotIn(b'secret', f.read())  # of the address that the registry redirects to
        self.assertIn('secret', ' '.join(self.registry.signatures))


if __name__ == '__main__':
    unittest.main()
