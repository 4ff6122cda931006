#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Models on servers and in the hub's cache, read by the command. All on loopback; what is expected of answers that come
over a network is what the same files give when they lie in a directory.

    VRAM=path/to/vram CLIENT=path/to/open_client python3 test_hub.py [CLASS...]
"""
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from hub_server import SIGNATURE, Hub  # noqa: E402

VRAM = os.environ['VRAM']
MIB = 1 << 20


def safetensors(tensors, filler=0):
    """tensors: {name: number of F32}; filler: bytes of white space in the header."""
    header, at = {}, 0
    for name, n in tensors.items():
        header[name] = {'dtype': 'F32', 'shape': [n], 'data_offsets': [at, at + 4 * n]}
        at += 4 * n
    text = json.dumps(header).encode()
    text += b' ' * (-len(text) % 8 + filler)
    return struct.pack('<Q', len(text)) + text + bytes(at)


def sharded(n, each=700):
    names = ['model-%05d-of-%05d.safetensors' % (i + 1, n) for i in range(n)]
    files = {name: safetensors({'layer.%d.weight' % i: each, 'layer.%d.bias' % i: 3}) for i, name in enumerate(names)}
    weight_map = {'layer.%d.%s' % (i, part): name for i, name in enumerate(names) for part in ('weight', 'bias')}
    total = n * 4 * (each + 3)
    files['model.safetensors.index.json'] = json.dumps({'metadata': {'total_size': total},
                                                        'weight_map': weight_map}).encode()
    files['config.json'] = b'{"model_type": "unheard", "architectures": ["UnheardOfModel"]}'
    files['README.md'] = b'# nothing'
    return files


def gguf(tensors):
    """Version 3, without metadata; tensors: {name: number of F32}. Source: ggml docs/gguf.md."""
    out = b'GGUF' + struct.pack('<IQQ', 3, len(tensors), 0)
    at = 0
    for name, n in tensors.items():
        out += struct.pack('<Q', len(name)) + name.encode() + struct.pack('<IQIQ', 1, n, 0, at)
        at += -(-4 * n // 32) * 32
    return out + bytes(-len(out) % 32) + bytes(at)


class Case(unittest.TestCase):
    def setUp(self):
        self.home = tempfile.mkdtemp(prefix='vram-hub-')
        self.addCleanup(shutil.rmtree, self.home)
        self.hub = Hub()
        self.hub.__enter__()
        self.addCleanup(self.hub.__exit__)

    def env(self, **more):
        e = {'PATH': os.environ['PATH'], 'HOME': self.home, 'HF_ENDPOINT': self.hub.url, 'LC_ALL': 'C',
             'MODELSCOPE_DOMAIN': self.hub.url, 'VRAM_HTTP_TIMEOUT': '5'}
        for name in ('ASAN_OPTIONS', 'UBSAN_OPTIONS', 'LSAN_OPTIONS'):
            if name in os.environ:
                e[name] = os.environ[name]
        e.update(more)
        return e

    def vram(self, *words, cwd=None, **env):
        del self.hub.log[:]
        done = subprocess.run([VRAM, *words], env=self.env(**env), capture_output=True, text=True, timeout=120,
                              cwd=cwd or self.home)
        self.no_secrets(done.stdout + done.stderr)
        for r in self.hub.log:
            if r.host == 'files':
                self.assertIsNone(r.authorization, 'the token went to the host of the files')
        return done

    def no_secrets(self, text):
        self.assertNotIn('hf_good', text)
        self.assertNotIn('hf_bad', text)
        self.assertNotIn('s1gn4ture', text)
        for folder, _, names in os.walk(os.path.join(self.home, '.cache', 'vram')):
            for name in names:
                with open(os.path.join(folder, name), 'rb') as f:
                    content = f.read()
                self.assertNotIn(b's1gn4ture', content)
                self.assertNotIn(b'hf_good', content)

    def inspect(self, *words, **env):
        done = self.vram('inspect', *words, '--json', **env)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def refused(self, status, text, *words, **env):
        done = self.vram('inspect', *words, **env)
        self.assertEqual(done.returncode, status, done.stderr)
        self.assertRegex(done.stderr, text)
        self.assertEqual(done.stdout, '')
        return done.stderr

    def on_disk(self, files, under='reference'):
        d = os.path.join(self.home, under)
        for name, data in files.items():
            os.makedirs(os.path.dirname(os.path.join(d, name)), exist_ok=True)
            with open(os.path.join(d, name), 'wb') as f:
                f.write(data)
        return d

    def snapshot(self, name, files, revision='main', commit='c' * 40, links=True):
        folder = os.path.join(self.home, '.cache/huggingface/hub/models--' + name.replace('/', '--'))
        os.makedirs(os.path.join(folder, 'refs'), exist_ok=True)
        os.makedirs(os.path.join(folder, 'blobs'), exist_ok=True)
        with open(os.path.join(folder, 'refs', revision), 'w') as f:
            f.write(commit)
        for i, (file, data) in enumerate(files.items()):
            path = os.path.join(folder, 'snapshots', commit, file)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            if links:
                blob = os.path.join(folder, 'blobs', str(i))
                with open(blob, 'wb') as f:
                    f.write(data)
                os.symlink(os.path.relpath(blob, os.path.dirname(path)), path)
            else:
                with open(path, 'wb') as f:
                    f.write(data)
        return folder

    def assert_same(self, got, files, *words):
        """What was read is what the same files give on a disk."""
        d = self.on_disk(files)
        expected = self.inspect(os.path.join(d, *words))
        shutil.rmtree(d)
        self.assertEqual(expected['model']['name'], os.path.join(d, *words))
        self.assertIsNone(expected['model']['read_from'])
        unlike = {'name': None, 'read_from': None}
        self.assertEqual({**got['model'], **unlike}, {**expected['model'], **unlike})
        for key in expected:
            if key not in ('model', 'warnings'):
                self.assertEqual(got[key], expected[key], key)


class Repositories(Case):
    def test_sharded(self):
        files = sharded(20)
        self.hub.add('org/name', files)
        got = self.inspect('org/name', HF_TOKEN='hf_good')
        log = list(self.hub.log)
        self.assert_same(got, files)
        self.assertEqual(len([r for r in log if r.path.startswith('/api/')]), 1)
        for name in files:
            asked = [r for r in log if r.path.endswith('/' + name)]
            self.assertEqual(len(asked), 0 if name == 'README.md' else 1, name)
        self.assertEqual(len([r for r in log if r.host == 'files']), 21)  # each shard and the index
        for r in log:
            if r.host == 'api':
                self.assertEqual(r.authorization, 'Bearer hf_good')

    def test_without_token(self):
        self.hub.add('org/name', sharded(2))
        self.inspect('org/name')
        self.assertTrue(all(r.authorization is None for r in self.hub.log))

    def test_only_heads(self):
        files = {'model.safetensors': safetensors({'a': 4 * MIB}), 'config.json': b'{"model_type": "x"}'}
        self.hub.add('org/name', files)
        self.assertEqual(self.inspect('org/name')['checkpoint_bytes'], 16 * MIB)
        self.assertLess(sum(r.sent for r in self.hub.log), 3 * MIB)

    def test_names(self):
        files = {'model.safetensors': safetensors({'a': 900})}
        self.hub.add('org/name', files, revisions=['main', 'dev', 'refs/pr/3', 'a/b'])
        for name in ('org/name', 'hf://org/name', 'hf:org/name', 'https://huggingface.co/org/name', 'hf.co/org/name',
                     'org/name@dev', 'org/name@refs/pr/3', 'org/name@a/b', 'https://huggingface.co/org/name/tree/a%2Fb',
                     'hf://org/name@refs%2Fpr%2F3', 'https://huggingface.co/org/name/blob/dev/model.safetensors',
                     'org/name@' + self.hub.repos['org/name'].commit, self.hub.url + '/org/name/tree/dev'):
            self.assertEqual(self.inspect(name)['checkpoint_bytes'], 3600, name)
            self.assertEqual(self.hub.log[0].path.count('/'), 6)

    def test_options(self):
        self.hub.add('org/name', {'a.safetensors': safetensors({'a': 900}), 'b.safetensors': safetensors({'b': 1000})},
                     revisions=['main', 'dev'])
        self.assertEqual(self.inspect('org/name', '--file', 'b.safetensors')['checkpoint_bytes'], 4000)
        self.inspect('org/name', '--file', 'a*', '--revision', 'dev')
        self.assertEqual([r.path for r in self.hub.log if r.path.startswith('/api')],
                         ['/api/models/org/name/revision/dev'])
        self.inspect('org/name@dev', '--file', 'a*', '--revision', 'main', '--offline')
        self.assertEqual(self.hub.log, [])
        self.inspect('org/name', '--file', 'a*', '--refresh')
        self.assertEqual(len(self.hub.asked('files')), 1)
        for revision in ('../x', 'a/../b', '', 'x' * 500):
            self.refused(2, 'revision', 'org/name', '--revision', revision)
            self.assertEqual(self.hub.log, [], revision)

    def test_names_with_odd_characters(self):
        files = {'a b#c?d%/m \u00e4&+.safetensors': safetensors({'a': 900})}
        self.hub.add('org/name', files)
        got = self.inspect('hf://org/name/a%20b%23c%3Fd%25')
        self.assertEqual(got['checkpoint_bytes'], 3600)

    def test_one_name_of_old(self):
        self.hub.add('openai-community/gpt2', {'model.safetensors': safetensors({'a': 900})})
        self.hub.renamed['gpt2'] = 'openai-community/gpt2'
        done = self.vram('inspect', 'hf:gpt2', '--json')
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn('gpt2 is now called openai-community/gpt2', done.stderr)
        self.refused(4, 'no such file', 'gpt2')
        self.assertEqual(self.hub.log, [])

    def test_folder(self):
        part = {'model.safetensors': safetensors({'a': 900}), 'config.json': b'{"model_type": "x"}'}
        files = {'fp16/' + n: d for n, d in part.items()}
        files['model.safetensors'] = safetensors({'b': 2000})
        self.hub.add('org/name', files)
        got = self.inspect('https://huggingface.co/org/name/tree/main/fp16')
        self.assert_same(got, part)
        got = self.inspect('https://huggingface.co/org/name/blob/main/fp16/model.safetensors')
        self.assert_same(got, part)
        self.refused(4, "no file or folder 'fp8'.*\n.*fp16/model.safetensors", 'hf://org/name/fp8')

    def test_pipeline(self):
        """A diffusers repository, and files that are weights of other frameworks."""
        files = {'model_index.json': json.dumps({'_class_name': 'SomePipeline', 'unet': ['diffusers', 'UNet'],
                                                 'text_encoder': ['transformers', 'CLIPTextModel']}).encode(),
                 'unet/config.json': b'{}', 'unet/diffusion_pytorch_model.safetensors': safetensors({'a': 900}),
                 'unet/diffusion_pytorch_model.bin': b'PK' + bytes(3000), 'flax_model.msgpack': bytes(4000),
                 'text_encoder/config.json': b'{}', 'text_encoder/model.safetensors': safetensors({'b': 1000}),
                 'text_encoder/model.fp16.safetensors': safetensors({'b': 500}), 'tf_model.h5': bytes(5000)}
        self.hub.add('org/name', files)
        got = self.inspect('org/name')
        self.assertEqual(got['checkpoint_bytes'], 7600)
        self.assertEqual(len(self.hub.asked('files')), 2)
        self.assert_same(got, files)

    def test_one_shard_means_all(self):
        files = sharded(3)
        more = {**files, 'other.safetensors': safetensors({'x': 5000})}
        self.hub.add('org/name', more)
        for one, meant in (('model-00002-of-00003.safetensors', files), ('model.safetensors.index.json', more)):
            got = self.inspect('https://huggingface.co/org/name/resolve/main/%s?download=true' % one)
            self.assert_same(got, meant)

    def test_sizes_absent(self):
        files = sharded(3)
        self.hub.add('org/name', files, sizes=False)
        got = self.inspect('org/name')
        self.assert_same(got, files)

    def test_renamed(self):
        files = sharded(2)
        self.hub.add('new/name', files)
        self.hub.renamed['old/name'] = 'new/name'
        done = self.vram('inspect', 'old/name', '--json', HF_TOKEN='hf_good')
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn('the model old/name is now called new/name', done.stderr)
        self.assertTrue(any(r.path.startswith('/new/name/resolve/') for r in self.hub.log))
        self.assertFalse(any(r.path.startswith('/old/name/resolve/') for r in self.hub.log))

    def test_another_case(self):
        self.hub.add('Org/Name', sharded(2))
        self.hub.renamed['org/name'] = 'Org/Name'
        done = self.vram('inspect', 'org/name', '--json')
        self.assertEqual((done.returncode, done.stderr), (0, ''))
        self.assertFalse(any(r.path.startswith('/org/name/') for r in self.hub.log))

    def test_paths_ask_nobody(self):
        for name in ('./org/name', '../name', '/org/name', '~/name', 'org/name/x', 'org/model.gguf', 'name', 'org/a..b',
                     'org/', 'a:7b'):
            self.refused(4, 'there is no such file or directory\n', name)
            self.assertEqual(self.hub.log, [], name)

    def test_existing_path_wins(self):
        self.hub.add('org/name', {'model.safetensors': safetensors({'a': 900})})
        self.on_disk({'model.safetensors': safetensors({'b': 11})}, 'org/name')
        self.assertEqual(self.inspect('org/name')['checkpoint_bytes'], 44)
        self.assertEqual(self.hub.log, [])


class Refusals(Case):
    def test_missing(self):
        err = self.refused(4, 'no such model, or it is private', 'org/nothing')
        self.assertIn('HF_TOKEN', err)
        self.assertIn('nor is there such a file or directory', err)
        err = self.refused(4, 'no such model, or it is private', 'hf:org/nothing', HF_TOKEN='hf_good')
        self.assertIn('the token of HF_TOKEN', err)

    def test_private(self):
        self.hub.add('org/name', sharded(2), private=True)
        self.refused(4, 'no such model, or it is private', 'org/name')
        for env in ({'HF_TOKEN': 'hf_good'}, {'HF_TOKEN': ' hf_good\n'}, {'HUGGING_FACE_HUB_TOKEN': 'hf_good'}):
            self.inspect('org/name', **env)
        self.refused(4, 'no such model', 'org/name', HF_TOKEN='hf_good', HF_HUB_DISABLE_IMPLICIT_TOKEN='1')

    def test_token_files(self):
        self.hub.add('org/name', sharded(2), private=True)
        self.on_disk({'.cache/huggingface/token': b'hf_good\n', 'x/token': b'hf_good', 'y': b'hf_bad'}, '.')
        self.inspect('org/name')
        self.inspect('org/name', HF_HOME=self.home + '/x')
        self.inspect('org/name', HF_HOME='~/x')
        err = self.refused(4, 'does not accept the token', 'org/name', HF_TOKEN_PATH=self.home + '/y')
        self.assertIn(self.home + '/y', err)
        self.inspect('org/name', HF_TOKEN_PATH=self.home + '/y', HF_TOKEN='hf_good')

    def test_gated(self):
        self.hub.add('org/name', sharded(2), gated=True)
        err = self.refused(4, 'gated', 'org/name')
        self.assertIn('%s/org/name' % self.hub.url, err)
        self.assertIn('HF_TOKEN', err)
        self.inspect('org/name', HF_TOKEN='hf_good')
        self.hub.repos['org/name'].gated = 'closed'
        shutil.rmtree(self.home + '/.cache')
        self.refused(4, 'gated, and the token of HF_TOKEN has no access', 'org/name', HF_TOKEN='hf_good')

    def test_bad_token(self):
        self.hub.add('org/name', sharded(2))
        self.refused(4, 'does not accept the token of HF_TOKEN', 'org/name', HF_TOKEN='hf_bad')

    def test_odd_token(self):
        self.hub.add('org/name', sharded(2))
        done = self.vram('inspect', 'org/name', HF_TOKEN='hf_bad\r\nX-Evil: 1')
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn('HF_TOKEN holds characters that no token has', done.stderr)
        self.assertTrue(all(r.authorization is None for r in self.hub.log))

    def test_revision(self):
        self.hub.add('org/name', sharded(2), revisions=['main', 'v1.0'])
        self.refused(4, "no branch, tag or commit 'v2'.*\n.*it has: main, v1.0", 'org/name@v2')

    def test_disabled(self):
        self.hub.add('org/name', sharded(2), disabled=True)
        self.refused(4, 'disabled', 'org/name')

    def test_other_kinds(self):
        for name in ('https://huggingface.co/datasets/org/name', 'hf://spaces/org/name'):
            self.refused(2, 'only models', name)
            self.assertEqual(self.hub.log, [])

    def test_no_server(self):
        self.refused(4, 'refuses the connection', 'org/name', HF_ENDPOINT='http://127.0.0.1:1')
        self.refused(2, 'HF_ENDPOINT', 'org/name', HF_ENDPOINT='huggingface.co')

    def test_sizes_disagree(self):
        files = sharded(2)
        self.hub.add('org/name', files, says={'model-00001-of-00002.safetensors': 123456})
        self.refused(4, r'listing says that the file has 123456 bytes, the server that has it says \d+', 'org/name')

    def test_listed_and_absent(self):
        repo = self.hub.add('org/name', sharded(2))
        lost = dict(repo.files)

        def lose(request):
            if '/resolve/' in request.path:
                lost_file = repo.files.pop('model-00002-of-00002.safetensors', None)
                lost['x'] = lost_file
        self.hub.before = lose
        self.refused(4, 'the hub lists this file and has it not', 'org/name')


class Hostile(Case):
    def answers(self, status, text, answer):
        self.hub.add('org/name', {'model.safetensors': safetensors({'a': 900})}, answer=answer)
        self.hub.repos['org/name'].commit = 'a' * 40
        return self.refused(status, text, 'org/name')

    def listing(self, siblings, **more):
        return json.dumps({'id': 'org/name', 'sha': 'a' * 40, 'siblings': siblings, **more}).encode()

    def test_no_api(self):
        self.answers(3, 'not what the hub', b'<!DOCTYPE html><html>')
        self.answers(3, 'not what the hub', b'')
        self.answers(3, 'not what the hub', b'[' * 100000)
        self.answers(3, 'not what the hub', b'{"siblings": {}}')
        self.answers(3, 'not what the hub', b'{"siblings": []} x')
        self.answers(3, 'no weight', self.listing([]))

    def test_names(self):
        bad = ['../x.safetensors', '/etc/passwd.safetensors', 'a//b.safetensors', 'a\\b.safetensors', '.', '',
               'a\nb.safetensors', 'a\u0000b.safetensors', 'x' * 5000 + '.safetensors']
        self.answers(3, 'no weight', self.listing([{'rfilename': n, 'size': 10} for n in bad]))
        self.answers(3, 'not what the hub', self.listing([{'rfilename': 7}]))
        self.answers(3, 'lists .* twice', self.listing([{'rfilename': 'm.safetensors', 'size': 10}] * 2))

    def test_sizes(self):
        for size in (-1, 1.5, '7', 2**64):
            self.answers(3, 'not what the hub', self.listing([{'rfilename': 'm.safetensors', 'size': size}]))
        self.answers(4, 'listing says', self.listing([{'rfilename': 'model.safetensors', 'size': 2**63}]))

    def test_many_files(self):
        self.answers(3, 'over 100000 files', self.listing([{'rfilename': '%d' % i} for i in range(100001)]))
        siblings = [{'rfilename': '%d.txt' % i, 'size': 1} for i in range(99999)]
        data = safetensors({'a': 900})
        self.hub.add('org/name', {'model.safetensors': data}, answer=self.listing(
            siblings + [{'rfilename': 'model.safetensors', 'size': len(data)}]))
        self.hub.repos['org/name'].commit = 'a' * 40
        self.assertEqual(self.inspect('org/name')['checkpoint_bytes'], 3600)

    def test_unsized(self):
        self.answers(3, 'how large', self.listing([{'rfilename': '%d.safetensors' % i} for i in range(5000)]))
        self.assertEqual(len(self.hub.log), 1)

    def test_names_of_the_model(self):
        for name in ('../../x', 'a/b/c', 'https://example.org/x', 'a/b?c', '\u001b[31m'):
            self.answers(3, 'not what the hub', self.listing([], id=name))

    def test_terminal(self):
        self.hub.add('org/name', {'\u001b[31mx.safetensors': safetensors({'a': 900})})
        done = self.vram('inspect', 'org/name')
        self.assertNotIn('\u001b', done.stdout + done.stderr)


class Quantisations(Case):
    def setUp(self):
        super().setUp()
        self.files = {'name-Q4_K_M.gguf': gguf({'blk.0.a': 1000}), 'name-Q4_K_S.gguf': gguf({'blk.0.a': 2000}),
                      'name-Q8_0.gguf': gguf({'blk.0.a': 3000}),
                      'BF16/name-BF16-00001-of-00002.gguf': gguf({'blk.0.a': 4000}),
                      'BF16/name-BF16-00002-of-00002.gguf': gguf({'blk.0.b': 5000}), 'README.md': b'#'}
        self.hub.add('org/name-GGUF', self.files)

    def test_one(self):
        for name in ('org/name-GGUF:Q4_K_M', 'org/name-GGUF:q4_k_m', 'hf.co/org/name-GGUF:Q4_K_M',
                     'https://huggingface.co/org/name-GGUF/blob/main/name-Q4_K_M.gguf'):
            shutil.rmtree(self.home + '/.cache', ignore_errors=True)
            got = self.inspect(name)
            self.assertEqual(got['checkpoint_bytes'], 4000, name)
            self.assertEqual([f for f in self.files if self.hub.asked(tail='/' + f)], ['name-Q4_K_M.gguf'])

    def test_beside_other_formats(self):
        self.hub.add('org/both', {**self.files, **sharded(2)})
        self.assertEqual(self.inspect('org/both:Q8_0')['checkpoint_bytes'], 12000)
        got = self.inspect('https://huggingface.co/org/both/blob/main/name-Q8_0.gguf')
        self.assertEqual(got['checkpoint_bytes'], 12000)

    def test_split(self):
        for name in ('org/name-GGUF:BF16', 'https://huggingface.co/org/name-GGUF/tree/main/BF16',
                     'hf://org/name-GGUF/BF16/name-BF16-00002-of-00002.gguf'):
            self.assertEqual(self.inspect(name)['checkpoint_bytes'], 36000, name)

    def test_several(self):
        err = self.refused(2, 'choose one with --file', 'org/name-GGUF')
        self.assertIn('name-Q4_K_M.gguf', err)
        self.assertEqual(len(self.hub.log), 1)

    def test_none(self):
        err = self.refused(2, 'no weight file matches "Q5_K_M"; there is', 'org/name-GGUF:Q5_K_M')
        self.assertIn('Q8_0', err)
        self.hub.add('org/plain', sharded(2))
        self.refused(2, 'no weight file matches "Q4_K_M"; there is model.safetensors', 'org/plain:Q4_K_M')

    def test_same_rule_everywhere(self):
        """On the hub, in its cache and in a directory the same words mean the same file, or the same refusal."""
        d = self.on_disk(self.files, 'copy')
        self.hub.add('org/cached-GGUF', self.files)
        self.snapshot('org/cached-GGUF', self.files)
        for words in ('Q4_K_M', 'q4_k_s', 'Q8_0', 'BF16', 'Q8', '*Q4_K_M*', 'Q4_K', 'Q4', 'Q2_K', 'name', '*'):
            tried = [self.vram('inspect', '--json', *place) for place in (
                ['org/name-GGUF:' + words], ['org/cached-GGUF:' + words], [d, '--file', words],
                ['org/name-GGUF', '--file', words])]
            self.assertEqual(len({done.returncode for done in tried}), 1, words)
            if tried[0].returncode == 0:
                got = [json.loads(done.stdout)['files'] for done in tried]
            else:
                got = [re.sub('[^ ]*copy|org/[a-z]+-GGUF', '', done.stderr) for done in tried]
            self.assertEqual(got[1:], got[:1] * 3, words)


class Caches(Case):
    def test_hub_cache(self):
        files = sharded(3)
        for links in (True, False):
            folder = self.snapshot('org/name', files, links=links)
            got = self.inspect('org/name')
            self.assertEqual(self.hub.log, [])
            self.assertEqual(got['model']['read_from'], "the hub's cache on this disk, commit ccccccc")
            self.assert_same(got, files)
            self.inspect('org/name@' + 'c' * 40)
            self.assertEqual(self.hub.log, [])
            shutil.rmtree(folder)

    def test_hub_cache_elsewhere(self):
        self.snapshot('org/name', sharded(3))
        os.rename(self.home + '/.cache/huggingface/hub', self.home + '/h')
        for env in ({'HF_HUB_CACHE': '~/h'}, {'HUGGINGFACE_HUB_CACHE': self.home + '/h'}):
            self.inspect('org/name', **env)
            self.assertEqual(self.hub.log, [])
        os.mkdir(self.home + '/x')
        os.rename(self.home + '/h', self.home + '/x/hub')
        self.inspect('org/name', HF_HOME=self.home + '/x')
        self.assertEqual(self.hub.log, [])

    def test_hub_cache_incomplete(self):
        files = sharded(3)
        part = {n: d for n, d in files.items() if '00002' not in n}
        folder = self.snapshot('org/name', part)
        with open(os.path.join(folder, 'blobs', 'abc.incomplete'), 'wb') as f:
            f.write(b'x')
        done = self.vram('inspect', 'org/name', '--json', HF_HUB_OFFLINE='1')
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertEqual(self.hub.log, [])
        got = json.loads(done.stdout)
        self.assertTrue(got['incomplete'])
        self.assertEqual(got['missing_files'], ['model-00002-of-00003.safetensors'])
        self.hub.add('org/name', files)
        done = self.vram('inspect', 'org/name', '--json')
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn('missing', done.stderr)
        self.assertFalse(json.loads(done.stdout)['incomplete'])

    def test_hub_cache_other_revision(self):
        self.snapshot('org/name', sharded(3))
        self.hub.add('org/name', sharded(2), revisions=['dev'])
        self.assertEqual(len(self.inspect('org/name@dev')['files']), 2)

    def test_hub_cache_damaged(self):
        files = sharded(3)
        self.snapshot('org/name', {**files, 'model-00002-of-00003.safetensors': b'\1\0\0\0\0\0\0\0x'})
        self.hub.add('org/name', files)
        done = self.vram('inspect', 'org/name', '--json')
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn('left aside', done.stderr)
        self.assert_same(json.loads(done.stdout), files)

    def test_hub_cache_only_config(self):
        files = sharded(3)
        self.snapshot('org/name', {'config.json': files['config.json']})
        self.hub.add('org/name', files)
        self.assert_same(self.inspect('org/name'), files)

    def test_headers_kept(self):
        files = sharded(5)
        self.hub.add('org/name', files)
        first = self.inspect('org/name')
        second = self.inspect('org/name')
        self.assertEqual([r.path for r in self.hub.log], ['/api/models/org/name/revision/main'])
        third = self.inspect('org/name', HF_HUB_OFFLINE='1')
        self.assertEqual(self.hub.log, [])
        self.assertEqual(first, second)
        where = '%s, commit %s' % (self.hub.url[len('http://'):], self.hub.repos['org/name'].commit[:7])
        self.assertEqual(first['model']['read_from'], where)
        self.assertEqual(third['model'].pop('read_from'), 'headers kept of ' + where)
        first['model'].pop('read_from')
        self.assertEqual(first, third)

    def test_server_is_gone(self):
        self.hub.add('org/name', sharded(2))
        self.inspect('org/name')
        self.hub.__exit__()
        self.refused(4, 'refuses the connection.*\n.*with --offline', 'org/name')
        self.inspect('org/name', '--offline')

    def test_new_commit(self):
        self.hub.add('org/name', sharded(5))
        self.inspect('org/name')
        files = sharded(5, each=800)
        self.hub.add('org/name', files)
        self.assert_same(self.inspect('org/name'), files)

    def test_offline_and_nothing(self):
        self.refused(4, 'not on this disk, and no server may be asked', 'org/name', HF_HUB_OFFLINE='1')
        self.refused(4, 'not on this disk, and no server may be asked', 'org/name', '--offline')
        self.refused(4, 'no server may be asked', self.hub.files_url + '/m.safetensors', '--offline')
        self.refused(4, 'no server may be asked', 'modelscope:org/name', '--offline')
        self.assertEqual(self.hub.log, [])


LLAMA = {'model_type': 'llama', 'torch_dtype': 'bfloat16', 'num_hidden_layers': 1, 'hidden_size': 64, 'vocab_size': 80,
         'intermediate_size': 96, 'num_attention_heads': 4}
LLAMA_BYTES = 2 * (2 * 80 * 64 + 4 * 64 * 64 + 3 * 64 * 96 + 3 * 64)


class Configurations(Case):
    """A configuration without weights, wherever it lies, is that and says so."""

    def check(self, got, bytes_known=True, warnings=0):
        self.assertEqual(got['model']['evidence'], 'configuration')
        self.assertEqual(got['checkpoint_bytes'], LLAMA_BYTES if bytes_known else None)
        self.assertEqual(len(got['warnings']), warnings)

    def test_repository(self):
        files = {'config.json': json.dumps(LLAMA).encode(), 'tokenizer.json': b'{}'}
        self.hub.add('org/name', files)
        got = self.inspect('org/name')
        self.check(got, warnings=1)
        self.assert_same(got, files)
        self.assertIn('there are no weight files', got['warnings'][0]['text'])
        files['hf_quant_config.json'] = b'{}'
        self.hub.add('org/quantised', files)
        self.check(self.inspect('org/quantised'), bytes_known=False, warnings=1)
        self.hub.add('org/other', {'config.json': b'{"a": 1}'})
        self.refused(3, 'org/other: no weight files', 'org/other')

    def test_named_beside_weights(self):
        files = {**sharded(2), 'config.json': json.dumps(LLAMA).encode(), 'generation_config.json': b'{"eos_token_id": 1}'}
        self.hub.add('org/name', files)
        self.check(self.inspect(self.hub.url + '/org/name/blob/main/config.json'))
        self.assertEqual(self.hub.asked(tail='.safetensors'), [])
        self.refused(3, 'generation_config.json: this is no configuration of a model',
                     self.hub.url + '/org/name/resolve/main/generation_config.json')
        self.hub.add('org/quantised', {**files, 'hf_quant_config.json': b'{}'})
        self.check(self.inspect(self.hub.url + '/org/quantised/blob/main/config.json'), bytes_known=False)
        self.snapshot('org/name', files)
        self.check(self.inspect('hf://org/name/config.json'))
        self.assertEqual(self.hub.log, [])

    def test_address(self):
        self.hub.static['/x/config.json'] = json.dumps(LLAMA).encode()
        self.check(self.inspect(self.hub.files_url + '/x/config.json'))
        self.hub.static['/x/mine.json'] = json.dumps(LLAMA).encode()
        self.check(self.inspect(self.hub.files_url + '/x/mine.json'))
        self.hub.static['/x/hf_quant_config.json'] = b'{}'
        self.check(self.inspect(self.hub.files_url + '/x/config.json'), bytes_known=False)

    def test_in_the_cache_alone(self):
        """Offline what is there will do; otherwise the hub has the weights."""
        files = {'config.json': json.dumps(LLAMA).encode()}
        self.snapshot('org/name', files)
        self.check(self.inspect('org/name', '--offline'), warnings=1)
        self.hub.add('org/name', {**files, **sharded(2)})
        self.assertEqual(self.inspect('org/name')['model']['evidence'], 'checkpoint')

    def test_built_in(self):
        """The repository's name is the hub's; that the shape is built in is a hint where there is no answer."""
        for words in (['Qwen/Qwen3-32B'], ['Qwen/Qwen3-32B', '--offline'], ['modelscope:Qwen/Qwen3-32B', '--offline']):
            error = self.refused(4, 'Qwen/Qwen3-32B: ', *words)
            self.assertRegex(error, r'hint: .*its shape is built in: qwen3-32b\n')
        self.assertNotIn('built in', self.refused(4, 'org/name: ', 'org/name'))
        got = self.inspect('qwen3-32b')
        self.assertEqual(self.hub.log, [])
        self.assertEqual((got['model']['evidence'], got['checkpoint_bytes']), ('catalogue', 65524246528))
        os.mkdir(os.path.join(self.home, 'qwen3-32b'))  # an existing path always wins
        self.assertIn('no weight files', self.vram('inspect', 'qwen3-32b').stderr)


class Addresses(Case):
    def put(self, path, data):
        self.hub.static[path] = data
        return self.hub.files_url + path

    def test_one_file(self):
        data = safetensors({'a': 900})
        url = self.put('/x/m.safetensors', data)
        got = self.inspect(url + '?' + SIGNATURE)
        self.assertEqual(got['checkpoint_bytes'], 3600)
        self.assertEqual([(r.path, r.query) for r in sorted(self.hub.log, key=lambda r: r.path)],
                         [('/x/config.json', ''), ('/x/m.safetensors', SIGNATURE)])
        config = b'{"model_type": "unheard", "architectures": ["UnheardOfModel"]}'
        self.put('/x/config.json', config)
        self.assert_same(self.inspect(url + '?' + SIGNATURE), {'m.safetensors': data, 'config.json': config},
                         'm.safetensors')

    def test_kept(self):
        url = self.put('/x/m.safetensors', safetensors({'a': 900}))
        first = self.inspect(url + '?' + SIGNATURE)
        second = self.inspect(url + '?' + SIGNATURE)
        self.assertEqual([r.status for r in self.hub.asked(tail='m.safetensors')], [304])
        third = self.inspect(url, '--offline')
        self.assertEqual(self.hub.log, [])
        self.assertEqual(first, second)
        self.assertEqual(first['model']['read_from'], self.hub.files_url[len('http://'):])
        self.assertEqual(third['model'].pop('read_from'), 'headers kept of ' + first['model'].pop('read_from'))
        self.assertEqual(first, third)
        self.put('/x/m.safetensors', safetensors({'a': 901}))
        self.assertEqual(self.inspect(url)['checkpoint_bytes'], 3604)

    def test_page_instead_of_config(self):
        url = self.put('/x/m.safetensors', safetensors({'a': 900}))
        self.put('/x/config.json', b'<!DOCTYPE html>')
        self.assertEqual(self.inspect(url)['checkpoint_bytes'], 3600)

    def test_config_that_cannot_be_had(self):
        """Its server has trouble: what the model computes is then not known, and must not be taken for "no configuration"."""
        url = self.put('/x/m.safetensors', safetensors({'a': 900}))
        for status in (401, 403, 404):
            self.put('/x/config.json', status)
            self.assertEqual(self.inspect(url, '--refresh')['checkpoint_bytes'], 3600)
        self.put('/x/config.json', 501)
        self.refused(4, 'config.json.*501', url, '--refresh')

    def test_without_ending(self):
        self.assertEqual(self.inspect(self.put('/x/download', safetensors({'a': 900})))['checkpoint_bytes'], 3600)
        self.assertEqual(self.inspect(self.put('/x/blob', gguf({'a': 1000})))['checkpoint_bytes'], 4000)
        self.refused(3, 'web page', self.put('/x/page', b'<!DOCTYPE html><html></html>' + b' ' * 100))

    def test_index_and_parts(self):
        files = sharded(4)
        for name, data in files.items():
            url = self.put('/x/' + name, data)
        base = url.rsplit('/', 1)[0] + '/'
        for one in ('model.safetensors.index.json', ''):
            shutil.rmtree(self.home + '/.cache', ignore_errors=True)
            got = self.inspect(base + one)
            self.assertEqual(len(self.hub.asked(tail='.safetensors')), 4 if one else 5)
            self.assert_same(got, files)
        got = self.inspect(base + 'model-00003-of-00004.safetensors')
        self.assertEqual(len(got['files']), 4)
        del self.hub.static['/x/model-00002-of-00004.safetensors']
        shutil.rmtree(self.home + '/.cache')
        done = self.vram('inspect', base + 'model.safetensors.index.json', '--json')
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertTrue(json.loads(done.stdout)['incomplete'])

    def test_many_parts(self):
        url = self.put('/x/m-00001-of-99999.gguf', gguf({'a': 1000}))
        self.refused(3, 'over the limit', url)
        self.assertEqual(self.hub.log, [])

    def test_missing(self):
        self.refused(4, '404', self.hub.files_url + '/x/m.safetensors?' + SIGNATURE)
        self.refused(4, 'neither is there', self.hub.files_url + '/x/')

    def test_changes(self):
        """The head is of one file and the rest of another: read once more, from the begin, and never mixed."""
        old, new = safetensors({'a': 900}, 3 * MIB), safetensors({'b': 901}, 3 * MIB)
        url = self.put('/x/m.safetensors', old)

        def change(request):
            if request.path.endswith('m.safetensors') and request.range and not request.range.startswith('bytes=0-'):
                self.hub.static['/x/m.safetensors'] = new
        self.hub.before = change
        self.assertEqual(self.inspect(url)['checkpoint_bytes'], 3604)

    def test_changes_always(self):
        count = [0]

        def change(request):
            if request.path.endswith('m.safetensors'):
                count[0] += 1
                self.hub.static['/x/m.safetensors'] = safetensors({'a': 900 + count[0]}, 3 * MIB)
        self.hub.before = change
        url = self.put('/x/m.safetensors', b'')
        self.refused(4, 'changed while it was read', url)
        self.assertLess(count[0], 10)


class ModelScope(Case):
    def test_names(self):
        files = sharded(3)
        self.hub.add('org/name', files)
        for name in ('modelscope:org/name', 'https://modelscope.cn/models/org/name/summary', 'modelscope:org/name@v1'):
            self.hub.repos['org/name'].revisions = ['main', 'v1']
            got = self.inspect(name, MODELSCOPE_API_TOKEN='hf_good')
            for r in self.hub.log:
                self.assertEqual(r.authorization, 'Bearer hf_good' if r.host == 'api' else None)
            self.assert_same(got, files)

    def test_missing(self):
        self.refused(4, "no such model or no revision 'master' of it, or it is private", 'modelscope:org/nothing')
        self.hub.add('org/name', sharded(2), private=True)
        self.refused(4, 'no such model', 'modelscope:org/name')
        self.inspect('modelscope:org/name', MODELSCOPE_API_TOKEN='hf_good')

    def test_kept(self):
        self.hub.add('org/name', sharded(3))
        first = self.inspect('modelscope:org/name')
        self.assertEqual(first, self.inspect('modelscope:org/name'))
        self.assertEqual(len(self.hub.log), 1)
        offline = self.inspect('modelscope:org/name', '--offline')
        self.assertEqual(offline['model'].pop('read_from'), 'headers kept of ' + first['model'].pop('read_from'))
        self.assertEqual(first, offline)
        self.assertEqual(self.hub.log, [])


class Memory(Case):
    def opened(self, *words):
        done = subprocess.run([os.environ['CLIENT'], *words], env=self.env(), capture_output=True, text=True, timeout=200)
        self.assertEqual(done.returncode, 0, (done.stdout + done.stderr)[-2000:])
        return int(done.stdout)

    def test_repository(self):
        self.hub.add('org/name', {**sharded(2), 'm-Q8_0.gguf': gguf({'a': 1000})}, sizes=False)
        self.assertGreater(self.opened('org/name'), 5)
        self.inspect('org/name', '--refresh')
        self.assertGreater(self.opened('--offline', 'org/name'), 5)
        self.assertGreater(self.opened('org/name:Q8_0'), 5)

    def test_others(self):
        files = sharded(2)
        self.hub.add('org/name', files)
        for name, data in files.items():
            self.hub.static['/x/' + name] = data
        self.assertGreater(self.opened('modelscope:org/name'), 5)
        self.assertGreater(self.opened(self.hub.files_url + '/x/model.safetensors.index.json?' + SIGNATURE), 5)

    def test_hub_cache(self):
        self.snapshot('org/name', sharded(2))
        self.assertGreater(self.opened('org/name'), 5)


if __name__ == '__main__':
    unittest.main()
