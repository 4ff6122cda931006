#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Models of Ollama: a store made in a temporary folder, and a registry on two ports of this computer, whose blobs
redirect from one to the other as the real one's do. Layout and fields: ollama 0.17.4, manifest/manifest.go,
manifest/paths.go, server/download.go; written here by hand."""
import hashlib
import http.server
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import threading
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from hub_server import Server, ranged  # noqa: E402

CLIENT = os.environ.get('CLIENT')
MEDIA = 'application/vnd.ollama.image.'
NOWHERE = 'http://127.0.0.1:1'  # nothing listens there


def gguf(tensors=3, pad=0, name='blk.%d.attn_q.weight'):
    """A GGUF file, version 3: F32 tensors of 8 elements; pad: so many bytes of a text in its metadata."""
    def text(s):
        return struct.pack('<Q', len(s)) + s.encode()
    out = b'GGUF' + struct.pack('<IQQ', 3, tensors, 3)
    out += text('general.architecture') + struct.pack('<I', 8) + text('qwen2')
    out += text('qwen2.block_count') + struct.pack('<II', 4, tensors)
    out += text('general.description') + struct.pack('<I', 8) + text('x' * pad)
    for i in range(tensors):
        out += text(name % i) + struct.pack('<IQIQ', 1, 8, 0, i * 32)
    out += b'\0' * (-len(out) % 32)
    return out + bytes(range(32)) * tensors


def safetensors(*names):
    header = json.dumps({n: {'dtype': 'F32', 'shape': [4], 'data_offsets': [16 * i, 16 * i + 16]}
                         for i, n in enumerate(names)}).encode()
    return struct.pack('<Q', len(header)) + header + b'\1' * (16 * len(names))


def digest(blob):
    return 'sha256:' + hashlib.sha256(blob).hexdigest()


def layer(kind, blob, **more):
    return {'mediaType': MEDIA + kind, 'digest': digest(blob), 'size': len(blob), **more}


def manifest(layers):
    return json.dumps({'schemaVersion': 2, 'mediaType': 'application/vnd.docker.distribution.manifest.v2+json',
                       'config': layer('config', b'{}'), 'layers': layers}).encode()


# ---- a registry ----

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'

    def answer(self, status, body=b'', **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace('_', '-'), value)
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        try:
            self.wfile.write(body)
        except ConnectionError:  # the client had enough
            self.close_connection = True

    def do_GET(self):
        r = self.server.registry
        port = 'registry' if self.server is r.front else 'blobs'
        path = self.path.split('?')[0]
        r.requests.append((port, path, self.headers.get('Range'), self.headers.get('Accept')))
        r.headers.append(dict(self.headers))
        r.signatures.append(self.path.partition('?')[2])
        if path in r.statuses:
            return self.answer(r.statuses[path], b'{"errors":[{"code":"UNKNOWN"}]}')
        if port == 'registry' and path in r.manifests:
            return self.answer(200, r.manifests[path])
        match = re.fullmatch(r'/v2/[^/]+/[^/]+/blobs/(sha256:[0-9a-f]{64})', path)
        if port == 'registry' and match and match.group(1) in r.blobs:
            where = 'http://127.0.0.1:%d/store/%s?X-Signature=secret' % (r.back.server_port, match.group(1))
            return self.answer(307, Location=where)
        if port == 'blobs' and path[7:] in r.blobs:
            return self.blob(r.blobs[path[7:]])
        return self.answer(404, b'{"errors":[{"code":"MANIFEST_UNKNOWN","message":"manifest unknown"}]}')

    def blob(self, body):
        status, body, headers = ranged(self.headers, body, '"e"')
        return self.answer(status, body, **headers)

    def log_message(self, *args):
        pass


class Registry:
    def __init__(self):
        self.manifests, self.blobs, self.statuses, self.requests, self.headers = {}, {}, {}, [], []
        self.signatures = []
        self.front, self.back = (Server(('127.0.0.1', 0), Handler) for _ in range(2))
        for server in (self.front, self.back):
            server.registry = self
            threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        self.host = '127.0.0.1:%d' % self.front.server_port
        self.url = 'http://' + self.host

    def put(self, repo, tag, blobs, layers):
        self.manifests['/v2/%s/manifests/%s' % (repo, tag)] = manifest(layers)
        self.blobs.update({digest(b): b for b in blobs})

    def close(self):
        for server in (self.front, self.back):
            server.shutdown()
            server.server_close()


class Case(unittest.TestCase):
    def setUp(self):
        self.root = tempfile.mkdtemp(prefix='vram-ollama-')
        self.store = os.path.join(self.root, 'models')
        self.cache = os.path.join(self.root, 'cache')
        self.registry = Registry()

    def tearDown(self):
        self.registry.close()
        shutil.rmtree(self.root)

    # ---- the store ----

    def write(self, path, data):
        full = os.path.join(self.store, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, 'wb') as f:
            f.write(data)
        return full

    def blob(self, data, sign='-'):
        return self.write('blobs/' + digest(data).replace(':', sign), data)

    def put(self, name, layers, blobs=(), sign='-'):
        """name: HOST/OWNER/MODEL/TAG"""
        for b in blobs:
            self.blob(b, sign)
        return self.write('manifests/' + name, manifest(layers))

    # ---- the client ----

    def run_client(self, *args, **env):
        full = {'PATH': os.environ['PATH'], 'OLLAMA_MODELS': self.store, 'VRAM_CACHE': self.cache, **env}
        full = {k: v for k, v in full.items() if v is not None}
        for name in os.environ:
            if name.startswith(('ASAN', 'UBSAN', 'LSAN')):
                full[name] = os.environ[name]
        del self.registry.requests[:]
        done = subprocess.run([CLIENT, *args], env=full, capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stderr), (0, ''), done.stdout)
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        self.warnings = [line['text'] for line in lines if line['kind'] == 'warning']
        self.read = lines[-1]['bytes']
        self.files = {line['name']: line['size'] for line in lines if line['kind'] == 'file'}
        self.left_out = {line['name']: line['size'] for line in lines if line['kind'] == 'left_out'}
        return lines[0]

    def good(self, *args, **env):
        got = self.run_client(*args, **env)
        self.assertEqual(got['kind'], 'checkpoint', got)
        return got

    def bad(self, *args, exit, text, **env):
        got = self.run_client(*args, **env)
        self.assertEqual(got['kind'], 'error', got)
        self.assertEqual(got['exit'], exit, got)
        self.assertIn(text, got['text'], got)
        return got

    def paths(self, port):
        return [r[1] for r in self.registry.requests if r[0] == port]


class Store(Case):
    def test_model(self):
        model = gguf()
        self.put('registry.ollama.ai/library/qwen2.5/7b',
                 [layer('model', model), layer('template', b't'), layer('license', b'l')], [model])
        got = self.good('--endpoint', '', 'library/qwen2.5', '7b')
        self.assertEqual((got['name'], got['tensors'], got['bytes']), ('ollama:qwen2.5:7b', 3, 96))
        self.assertEqual(self.files, {'qwen2.5-7b.gguf': len(model)})
        self.assertEqual((self.warnings, self.read), ([], 0))
        self.assertFalse(os.path.exists(self.cache))  # nothing came over the network

    def test_latest_and_case(self):
        model = gguf()
        self.put('registry.ollama.ai/Somebody/Qwen2.5/latest', [layer('model', model)], [model], sign=':')
        got = self.good('somebody/qwen2.5')  # Ollama finds names in either case; old stores have sha256:HEX
        self.assertEqual(got['name'], 'ollama:somebody/qwen2.5')
        self.assertEqual(self.files, {'qwen2.5.gguf': len(model)})

    def test_places(self):
        model = gguf()
        home = os.path.join(self.root, 'home')
        self.put('registry.ollama.ai/library/a/latest', [layer('model', model)], [model])
        os.makedirs(home + '/.ollama')
        os.rename(self.store, home + '/.ollama/models')
        self.good('--offline', 'library/a', OLLAMA_MODELS=None, HOME=home)
        self.bad('--offline', 'library/a', exit=4, text='not on this disk', HOME=home)  # OLLAMA_MODELS alone counts
        self.bad('--offline', 'library/a', exit=4, text='not on this disk', OLLAMA_MODELS=None, HOME=None)

    def test_other_hosts(self):
        model = gguf()
        self.put('hf.co/org/Name-GGUF/Q4_K_M', [layer('model', model)], [model])
        for args in (['--endpoint', 'https://hf.co', 'org/Name-GGUF'], ['hf.co/org/Name-GGUF']):
            got = self.good('--offline', *args, 'Q4_K_M')
            self.assertEqual(got['name'], 'ollama:hf.co/org/Name-GGUF:Q4_K_M')
            self.assertEqual(list(self.files), ['Name-GGUF-Q4_K_M.gguf'])
        self.bad('--offline', 'org/Name-GGUF', 'Q4_K_M', exit=4, text='not on this disk')

    def test_several(self):
        a, b = gguf(2), gguf(3, name='blk.1%d.attn_q.weight')
        self.put('registry.ollama.ai/library/a/latest', [layer('model', a), layer('model', b)], [a, b])
        got = self.good('--offline', 'library/a')
        self.assertEqual(self.files, {'a-00001-of-00002.gguf': len(a), 'a-00002-of-00002.gguf': len(b)})
        self.assertEqual(got['tensors'], 5)

    def test_projector(self):
        """Tells apart what belongs to the model from what only looks at images for it."""
        model, eye, other = gguf(), gguf(2, name='v.blk.%d.attn_q.weight'), gguf(1, name='a.blk.%d.attn_q.weight')
        self.put('registry.ollama.ai/library/llava/7b',
                 [layer('projector', eye), layer('model', model), layer('projector', other)], [model, eye, other])
        got = self.good('--offline', 'library/llava', '7b')
        self.assertEqual((got['tensors'], self.files), (3, {'llava-7b.gguf': len(model)}))
        self.assertEqual(self.left_out, {'mmproj.gguf': len(eye), 'mmproj-2.gguf': len(other)})

    def test_tensors(self):
        """A model of tensors: each is a safetensors file of its own."""
        names = ['model.embed_tokens.weight', 'model.layers.0.mlp.down_proj.weight', 'lm_head.weight']
        blobs = [safetensors(n) for n in names]
        config = b'{"architectures": ["LlamaForCausalLM"]}'
        layers = [layer('tensor', b, name=n) for b, n in zip(blobs, names)]
        layers += [layer('json', config, name='config.json'), layer('json', b'{}', name='tokenizer.json')]
        self.put('registry.ollama.ai/library/t/latest', layers, blobs + [config, b'{}'])
        got = self.good('--offline', 'library/t')
        self.assertEqual((got['tensors'], got['bytes'], got['config']), (3, 48, True))
        self.assertEqual(self.files, {n + '.safetensors': len(b) for b, n in zip(blobs, names)})

    def test_settings(self):
        model, params = gguf(), b'{"num_ctx": 32768, "stop": ["<|im_end|>"], "temperature": 0.7}'
        layers = [layer('model', model), layer('params', params), layer('adapter', b'adapter')]
        self.put('registry.ollama.ai/library/a/latest', layers, [model, params])
        got = self.good('--offline', 'library/a')
        here = "Ollama's store on this disk"
        self.assertEqual(got['read_from'], here + ', its settings ask for a context of 32,768 tokens')
        self.assertEqual(self.warnings, ['its adapter of 7 bytes is not counted'])
        for other in (b'{"num_ctx": -1}', b'{"num_ctx": "1"}', b'[]', b'{', b'', b'x' * 70000):
            self.put('registry.ollama.ai/library/a/latest', [layer('model', model), layer('params', other)], [other])
            self.assertEqual(self.good('--offline', 'library/a')['read_from'], here)
            self.assertEqual(self.warnings, [])

    def test_missing(self):
        got = self.bad('--offline', 'library/qwen9', '7b', exit=4, text='not on this disk')
        self.assertEqual(got['file'], 'ollama:qwen9:7b')

    def test_odd_files(self):
        """Nothing that is no regular file is read, or waited for."""
        model = gguf()
        self.put('registry.ollama.ai/library/a/latest', [layer('model', model)])
        blob = os.path.join(self.store, 'blobs', digest(model).replace(':', '-'))
        os.makedirs(os.path.dirname(blob))
        os.mkfifo(blob)
        self.bad('--offline', 'library/a', exit=4, text='INCOMPLETE: 0 of its %d' % len(model))
        os.unlink(blob)
        os.mkdir(blob)
        self.bad('--offline', 'library/a', exit=4, text='INCOMPLETE: 0 of its %d' % len(model))
        os.mkfifo(os.path.join(self.store, 'manifests/registry.ollama.ai/library/a/pipe'))
        self.bad('--offline', 'library/a', 'pipe', exit=3, text='this is a pipe')
        self.bad('--offline', 'library', 'a', exit=2, text='OWNER/NAME')

    def test_names(self):
        for args in (['../a'], ['a/..'], ['a/b', '../c'], ['a/b', 'c/d'], ['a/b/c/d'], ['/a/b'], ['a/'], ['a'], [''],
                     ['a/.b'], ['a/b', 'x' * 81], ['a b/c'], ['a/b', 'x\ny'], ['-a/b'], ['../x/y']):
            self.bad('--offline', '--', *args, exit=2, text='no name of a model of Ollama')
        for endpoint in ('https://', 'ftp://host', 'https://host/path', 'https://u@host', 'https://host?x', 'host'):
            self.bad('--endpoint', endpoint, 'a/b', exit=2, text='the registry is not HOST')


class Incomplete(Case):
    def setUp(self):
        super().setUp()
        self.model = gguf()
        self.size = len(self.model)

    def put_manifest(self):
        self.put(self.registry.host + '/library/a/latest', [layer('model', self.model)])

    def path(self):
        return 'blobs/' + digest(self.model).replace(':', '-')

    def test_shorter(self):
        self.put_manifest()
        self.write(self.path(), self.model[:-10])
        got = self.bad('--offline', '--endpoint', self.registry.url, 'library/a', exit=4,
                       text='INCOMPLETE: %d of its %d bytes are on this disk' % (self.size - 10, self.size))
        self.assertEqual(got['hint'], 'finish the download: ollama pull %s/library/a' % self.registry.host)
        self.assertEqual(got['file'], 'a.gguf')
        self.assertEqual(self.registry.requests, [])

    def test_longer(self):
        self.put_manifest()
        self.write(self.path(), self.model + b'x')
        self.bad('--offline', '--endpoint', self.registry.url, 'library/a', exit=4, text='')
        self.assertIn('the copy on this disk is damaged: it has %d bytes, and the manifest says %d'
                      % (self.size + 1, self.size), self.warnings)

    def test_rest_from_registry(self):
        """The manifest is here, the blob is not: its header comes from the registry."""
        self.put_manifest()
        self.registry.blobs[digest(self.model)] = self.model
        self.good('--endpoint', self.registry.url, 'library/a')
        self.assertEqual(self.warnings, ['the download is INCOMPLETE: 0 of its %d bytes are on this disk' % self.size])
        self.assertEqual(self.paths('registry'), ['/v2/library/a/blobs/' + digest(self.model)])

    def test_nowhere(self):
        """A model that was made here, and lost its blob."""
        self.put_manifest()
        self.bad('--endpoint', self.registry.url, 'library/a', exit=4, text='INCOMPLETE: 0 of its')

    def test_parts(self):
        """While Ollama downloads there is no manifest here; the file has its full size from the start."""
        self.registry.put('library/a', 'latest', [self.model], [layer('model', self.model)])
        self.write(self.path() + '-partial', b'\0' * self.size)
        for n, done in enumerate((100, 7)):
            self.write('%s-partial-%d' % (self.path(), n),
                       json.dumps({'N': n, 'Offset': 100 * n, 'Size': 100, 'Completed': done}).encode())
        self.good('--endpoint', self.registry.url, 'library/a')
        self.assertEqual(self.warnings,
                         ['the download is INCOMPLETE: 107 of its %d bytes are on this disk' % self.size])
        self.write(self.path() + '-partial-0', b'{"Completed": 18446744073709551615, "Size": 18446744073709551615}')
        self.write(self.path() + '-partial-1', b'junk')
        self.good('--endpoint', self.registry.url, 'library/a')  # figures of others: no overflow, no crash
        shutil.rmtree(os.path.join(self.store, 'blobs'))
        self.write(self.path() + '.tmp', self.model[:50])  # models of tensors are downloaded so
        self.good('--endpoint', self.registry.url, 'library/a')
        self.assertEqual(self.warnings,
                         ['the download is INCOMPLETE: 50 of its %d bytes are on this disk' % self.size])


class FromRegistry(Case):
    def setUp(self):
        super().setUp()
        self.model = gguf(tensors=4, pad=3000) + b'\0' * 0
        self.params = b'{"num_ctx": 4096}'
        self.registry.put('library/qwen2.5', '7b', [self.model, self.params],
                          [layer('model', self.model), layer('params', self.params)])
        self.args = ['--endpoint', self.registry.url, 'library/qwen2.5', '7b']

    def test_requests(self):
        got = self.good(*self.args)
        self.assertEqual((got['tensors'], got['bytes']), (4, 128))
        self.assertEqual(got['name'], 'ollama:%s/library/qwen2.5:7b' % self.registry.host)
        self.assertEqual(self.files, {'qwen2.5-7b.gguf': len(self.model)})
        first = self.registry.requests[0]
        self.assertEqual(first[1], '/v2/library/qwen2.5/manifests/7b')
        self.assertEqual(first[3], 'application/vnd.docker.distribution.manifest.v2+json')
        self.assertEqual(set(self.paths('registry')[1:]),
                         {'/v2/library/qwen2.5/blobs/' + digest(b) for b in (self.model, self.params)})
        self.assertEqual(set(self.paths('blobs')), {'/store/' + digest(b) for b in (self.model, self.params)})
        settings = ', its settings ask for a context of 4,096 tokens'
        self.assertEqual((got['read_from'], self.warnings), (self.registry.host + settings, []))
        ranges = [r[2] for r in self.registry.requests if r[1] == '/store/' + digest(self.model)]
        self.assertTrue(all(ranges), ranges)  # never the whole file
        self.assertFalse(any('Authorization' in h for h in self.registry.headers))

    def test_only_the_header(self):
        """Of 64 MiB of tensors nothing but the first bytes come."""
        big = gguf() + bytes(64 << 20)
        big = big.replace(struct.pack('<IQIQ', 1, 8, 0, 64), struct.pack('<IQIQ', 1, (64 << 18) + 8, 0, 64))
        self.registry.put('library/big', 'latest', [big], [layer('model', big)])
        self.good('--endpoint', self.registry.url, 'library/big')
        self.assertEqual(self.files, {'big.gguf': len(big)})
        self.assertLess(self.read, 2 << 20)

    def test_cache(self):
        self.good(*self.args)
        with open(os.path.join(self.cache, os.listdir(self.cache)[0]), 'rb') as f:
            self.assertNotIn(b'secret', f.read())
        self.good(*self.args)
        self.assertEqual(self.paths('registry'), ['/v2/library/qwen2.5/manifests/7b'])  # it may have changed
        self.assertEqual(self.paths('blobs'), [])  # these cannot
        got = self.good('--offline', *self.args)
        self.assertEqual((got['tensors'], self.registry.requests), (4, []))
        self.assertEqual(got['read_from'], 'headers kept of %s, its settings ask for a context of 4,096 tokens'
                         % self.registry.host)
        self.good('--refresh', *self.args)
        self.assertEqual(len(set(self.paths('blobs'))), 2)
        shutil.rmtree(self.cache)
        self.bad('--offline', *self.args, exit=4, text='this model is not on this disk')
        self.assertEqual(self.registry.requests, [])

    def test_offline_half_known(self):
        """The manifest is in the cache, the header is not."""
        self.registry.statuses['/store/' + digest(self.model)] = 404
        self.bad(*self.args, exit=4, text='')
        self.bad('--offline', *self.args, exit=4, text='was not read before')

    def test_moved_tag(self):
        self.good(*self.args)
        other = gguf(tensors=2)
        self.registry.put('library/qwen2.5', '7b', [other], [layer('model', other)])
        self.assertEqual(self.good(*self.args)['tensors'], 2)
        self.assertEqual(self.good('--offline', *self.args)['tensors'], 2)  # the newest that is known

    def test_blob_here(self):
        """Another model has the same blob on this disk."""
        self.blob(self.model)
        got = self.good(*self.args)
        self.assertTrue(got['read_from'].startswith(self.registry.host + " and Ollama's store on this disk, "))
        self.assertNotIn('/store/' + digest(self.model), self.paths('blobs'))

    def test_unknown(self):
        got = self.bad('--endpoint', self.registry.url, 'library/qwen9', exit=4, text='no model qwen9, or no tag latest')
        self.assertEqual(got['file'], 'ollama:%s/library/qwen9' % self.registry.host)
        self.assertIn('spelling', got['hint'])

    def test_refused(self):
        path = '/v2/library/qwen2.5/manifests/7b'
        for status in (401, 403):
            self.registry.statuses[path] = status
            got = self.bad(*self.args, exit=4, text='no such model, or wants a login')
            self.assertIn('ollama pull', got['hint'])
        self.registry.statuses[path] = 418
        self.bad(*self.args, exit=4, text='418')

    def test_not_reachable(self):
        self.bad('--endpoint', NOWHERE, 'library/a', exit=4, text='', VRAM_HTTP_TIMEOUT='2')

    def test_other_size(self):
        self.registry.manifests['/v2/library/qwen2.5/manifests/7b'] = manifest(
            [{**layer('model', self.model), 'size': len(self.model) + 1}])
        self.bad(*self.args, exit=4, text='the listing says that the file has %d bytes' % (len(self.model) + 1))

    def test_no_cache(self):
        self.good(*self.args, VRAM_CACHE='/dev/null')
        self.good(*self.args, VRAM_CACHE=None)
        self.assertTrue(self.paths('blobs'))


class Memory(Case):
    """Each allocation fails once, and for good: the status says so, and nothing is left."""

    def count(self, *args):
        got = self.run_client('--memory', *args)
        self.assertEqual(got['kind'], 'memory')
        self.assertGreater(got['n'], 5)  # most are cut from blocks

    def test_store(self):
        one, two, params = gguf(), gguf(name='blk.1%d.attn_q.weight'), b'{"num_ctx": 4096}'
        layers = [layer('model', one), layer('model', two), layer('params', params), layer('adapter', b'a'),
                  layer('json', b'{}', name='tokenizer.json')]
        self.put('registry.ollama.ai/library/Capital/7b', layers, [one, two, params])
        self.count('--offline', 'library/capital', '7b')

    def test_registry(self):
        model = gguf()
        self.registry.put('library/a', 'latest', [model], [layer('model', model)])
        self.write('blobs/' + digest(model).replace(':', '-') + '.tmp', b'part')
        self.count('--endpoint', self.registry.url, 'library/a')


class Hostile(Case):
    def refuse(self, text, expected, exit=3):
        """The same sentence wherever the manifest comes from."""
        data = text if isinstance(text, bytes) else text.encode()
        self.write('manifests/registry.ollama.ai/library/a/latest', data)
        here = self.bad('--offline', 'library/a', exit=exit, text=expected)
        self.registry.manifests['/v2/library/a/manifests/latest'] = data
        there = self.bad('--endpoint', self.registry.url, 'library/a', exit=exit, text=expected)
        self.assertEqual((here['text'], here['offset']), (there['text'], there['offset']))
        self.assertTrue(here['file'].endswith('/library/a/latest'))
        return here

    def layers(self, text):
        return '{"layers": [%s]}' % text

    def model(self, **changes):
        return self.layers(json.dumps({**layer('model', b'x'), **changes}))

    def test_texts(self):
        for text in ('', '{', '\xff', 'x', '{"layers": []} x', '[' * 100000, '{"layers": [' + '[' * 70):
            self.refuse(text, 'the manifest is not JSON')
        for text in ('[]', '1', '{}', '{"errors": []}', '{"manifests": []}'):
            self.refuse(text, 'this is no manifest of a model')
        self.refuse('{"layers": {}}', 'not a list')
        for text in ('{"layers": []}', '{"layers": null}', self.layers('{"mediaType": "x"}')):
            got = self.refuse(text, 'names no weights')
            self.assertIn('cloud', got['hint'])

    def test_layers(self):
        self.refuse(self.layers('1'), 'a layer of the manifest is not an object')
        self.refuse(self.layers('{}'), 'has no mediaType')
        self.refuse(self.model(mediaType=1), 'the mediaType of a layer is not a text')
        self.refuse(self.model(digest=None), 'the digest of a layer is not a text')
        self.assertEqual(self.refuse(self.layers('{"mediaType": 1}'), '')['offset'], 26)

    def test_digests(self):
        good = digest(b'x')
        for bad in ('', 'x', 'sha256:', 'sha512' + good[6:], good[:-1], good + '0', good[:-1] + 'g', good[:-1] + '/',
                    'sha256:' + '../' * 21 + 'a', 'sha256:/etc/passwd', good[:-1] + '\0', '\x1b[2J' + good):
            got = self.refuse(self.model(digest=bad), 'is not sha256: and 64 hexadecimal digits')
            self.assertNotIn('\x1b', got['text'])

    def test_sizes(self):
        for bad in ('9223372036854775808', '18446744073709551616', '-1', '1.5', '"1"', 'null', '1e30', '[]', 'true'):
            text = self.model(size=12345).replace('12345', bad)
            self.refuse(text, 'is not a whole number below 2^63')
        both = [layer('model', b'x'), layer('model', b'y')]
        for one in both:
            one['size'] = 2 ** 63 - 1
        self.write('manifests/registry.ollama.ai/library/a/latest', manifest(both))
        self.bad('--offline', 'library/a', exit=4, text='INCOMPLETE: 0 of its 9223372036854775807')  # no overflow

    def test_names_of_layers(self):
        for bad in ('', '/etc/passwd', '../x', 'a/../b', 'a//b', './x', 'x' * 600, 'a\x1b[2Jb', 'a\nb', 'a\0b', 'a\\b'):
            if bad:
                self.refuse(self.layers(json.dumps(layer('json', b'x', name=bad))), 'is no path that leads down')
            self.refuse(self.layers(json.dumps(layer('tensor', b'x', name=bad))), 'is no path that leads down')
        twice = manifest([layer('tensor', b'x', name='a'), layer('tensor', b'y', name='a')])
        self.write('manifests/registry.ollama.ai/library/a/latest', twice)
        self.bad('--offline', 'library/a', exit=3, text="'a.safetensors' twice")

    def test_many(self):
        one = json.dumps(layer('license', b'x'))
        self.refuse(self.layers(','.join([one] * 65537)), 'the manifest has over 65,536 layers')
        self.write('manifests/registry.ollama.ai/library/a/latest', b' ' * ((16 << 20) + 1))
        self.bad('--offline', 'library/a', exit=3, text='over the limit of 16777216')
        self.registry.manifests['/v2/library/a/manifests/latest'] = b' ' * ((16 << 20) + 1)
        self.bad('--endpoint', self.registry.url, 'library/a', exit=3, text='over the limit of 16777216')
        one = json.dumps(layer('model', b'x'))
        self.write('manifests/registry.ollama.ai/library/a/latest', self.layers(','.join([one] * 65536)).encode())
        self.bad('--offline', 'library/a', exit=4, text='INCOMPLETE')

    def test_damaged_model(self):
        model = gguf()[:40]
        self.put('registry.ollama.ai/library/a/latest', [layer('model', model)], [model])
        got = self.bad('--offline', 'library/a', exit=3, text='')
        self.assertEqual(got['file'], 'ollama:a/a.gguf')


if __name__ == '__main__':
    unittest.main()
