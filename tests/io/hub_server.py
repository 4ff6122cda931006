# SPDX-License-Identifier: MIT
"""A hub on loopback with two hosts, as the real one has: one answers the API and redirects large files, the other one
has them. What they are asked is in a log. Headers and statuses: huggingface_hub 2.4.0, utils/_http.py.

    with Hub() as hub:
        hub.add('org/name', {'config.json': b'{}', 'model.safetensors': b'...'})
        run(env={'HF_ENDPOINT': hub.url})
        hub.log  # [Request, ...]
"""
import hashlib
import json
import re
import sys
import threading
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SIGNATURE = 'X-Amz-Signature=s1gn4ture'


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        """A client may close a connection before the end of an answer that it does not want, or be killed."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


def ranged(asked, data, etag):
    """Status, body and headers of the answer of a server that does as it should."""
    if asked.get('If-None-Match') == etag:
        return 304, b'', {'ETag': etag}
    m = re.fullmatch(r'bytes=(\d+)-(\d*)', asked.get('Range') or '')
    if not m or asked.get('If-Range', etag) != etag:
        return 200, data, {'ETag': etag, 'Accept_Ranges': 'bytes'}
    first, last = int(m.group(1)), min(int(m.group(2) or len(data)), len(data) - 1)
    if first >= len(data):
        return 416, b'', {'Content_Range': 'bytes */%d' % len(data)}
    return 206, data[first:last + 1], {'ETag': etag, 'Content_Range': 'bytes %d-%d/%d' % (first, last, len(data))}


class Request:
    def __init__(self, host, handler):
        self.host = host
        self.method = handler.command
        self.path, _, self.query = handler.path.partition('?')
        self.range = handler.headers.get('Range')
        self.if_none_match = handler.headers.get('If-None-Match')
        self.authorization = handler.headers.get('Authorization')
        self.status = None
        self.sent = 0

    def __repr__(self):
        return '%s %s %s?%s %s -> %s' % (self.host, self.method, self.path, self.query, self.range, self.status)


class Repo:
    def __init__(self, files, **how):
        self.files = files            # name: bytes
        self.private = how.get('private', False)
        self.gated = how.get('gated', False)
        self.disabled = how.get('disabled', False)
        self.sizes = how.get('sizes', True)
        self.says = how.get('says', {})  # name: the size that the API says, when it is another
        self.answer = how.get('answer')  # the API's answer as it is, bytes
        self.revisions = how.get('revisions', ['main'])
        self.commit = hashlib.sha1(repr(sorted(files.items())).encode()).hexdigest()


class Hub:
    def __init__(self):
        self.repos, self.renamed, self.blobs, self.static = {}, {}, {}, {}
        self.log, self.tokens = [], {'hf_good'}
        self.lock = threading.Lock()
        self.elsewhere = {}  # (repository, file): the address that it redirects to
        self.before = None  # called with each request before it is answered

    def __enter__(self):
        self.servers = [Server(('127.0.0.1', 0), handler(self, host)) for host in ('api', 'files')]
        for s in self.servers:
            threading.Thread(target=s.serve_forever, kwargs={'poll_interval': 0.02}, daemon=True).start()
        self.url, self.files_url = ('http://127.0.0.1:%d' % s.server_port for s in self.servers)
        return self

    def __exit__(self, *_):
        for s in self.servers:
            s.shutdown()
            s.server_close()
        self.servers = []

    def add(self, name, files, **how):
        repo = self.repos[name] = Repo(files, **how)
        for data in files.values():
            self.blobs[hashlib.sha256(data).hexdigest()] = data
        return repo

    def asked(self, host=None, tail=''):
        return [r for r in self.log if (host is None or r.host == host) and r.path.endswith(tail)]


def handler(hub, host):
    class Handler(BaseHTTPRequestHandler):
        protocol_version = 'HTTP/1.1'

        def log_message(self, *_):
            pass

        def reply(self, status, body=b'', **headers):
            self.request_row.status = status
            self.request_row.sent = len(body)
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name.replace('_', '-'), value)
            self.send_header('Content-Length', str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def error(self, status, code, text=''):
            headers = {'X_Error_Code': code} if code else {}
            self.reply(status, b'{"error":"no"}', X_Error_Message=text or code or 'no', **headers)

        def send_file(self, data, etag):
            status, body, headers = ranged(self.headers, data, etag)
            return self.reply(status, body, **headers)

        def do_GET(self):
            self.request_row = Request(host, self)
            with hub.lock:
                hub.log.append(self.request_row)
            if hub.before is not None:
                hub.before(self.request_row)
            path = self.request_row.path
            if path in hub.static:
                data = hub.static[path]
                return self.reply(data) if isinstance(data, int) else self.send_file(
                    data, '"%s"' % hashlib.sha256(data).hexdigest())
            if host == 'files':
                return self.blob(path)
            if path.startswith('/api/v1/models/'):
                return self.modelscope_api(path)
            if path.startswith('/api/models/'):
                return self.api(path[len('/api/models/'):])
            return self.resolve(path)

        def blob(self, path):
            if not path.startswith('/blobs/'):
                return self.reply(404)
            data = hub.blobs.get(path.rsplit('/', 1)[-1])
            if data is None or SIGNATURE not in self.request_row.query:
                return self.reply(403)
            return self.send_file(data, '"%s"' % path.rsplit('/', 1)[-1])

        # ---- the hub ----

        def token(self):
            value = self.headers.get('Authorization') or ''
            return value[len('Bearer '):] if value.startswith('Bearer ') else None

        def allowed(self, repo, of_file):
            token = self.token()
            if token is not None and token not in hub.tokens:
                return self.error(401, '', 'Invalid credentials in Authorization header')
            if repo is None or (repo.private and token is None):
                return self.error(401 if token is None else 404, 'RepoNotFound', 'Repository not found')
            if repo.disabled:
                return self.error(403, '', 'Access to this resource is disabled.')
            if repo.gated and of_file and (token is None or repo.gated == 'closed'):
                return self.error(401 if token is None else 403, 'GatedRepo', 'Access to model is restricted')
            return True

        def api(self, rest):
            name, what = rest, ''
            for word in ('/revision/', '/refs'):
                if word in rest:
                    name, _, what = rest.partition(word)
                    break
            if name in hub.renamed:
                to = '/api/models/' + hub.renamed[name] + rest[len(name):]
                return self.reply(307, Location=to + ('?' + self.request_row.query if self.request_row.query else ''))
            repo = hub.repos.get(name)
            if self.allowed(repo, False) is not True:
                return None
            if rest.endswith('/refs'):
                refs = {'branches': [{'name': r, 'ref': 'refs/heads/' + r} for r in repo.revisions], 'tags': []}
                return self.reply(200, json.dumps(refs).encode())
            if urllib.parse.unquote(what) not in repo.revisions + [repo.commit]:
                return self.error(404, 'RevisionNotFound', 'Invalid rev id: ' + what)
            if repo.answer is not None:
                return self.reply(200, repo.answer)
            return self.reply(200, json.dumps(self.model_info(name, repo)).encode())

        def model_info(self, name, repo):
            siblings = []
            for file, data in sorted(repo.files.items()):
                row = {'rfilename': file}
                if repo.sizes:
                    row.update(size=repo.says.get(file, len(data)), blobId='0' * 40)
                    if len(data) > 2000:
                        row['lfs'] = {'sha256': hashlib.sha256(data).hexdigest(), 'size': len(data), 'pointerSize': 134}
                siblings.append(row)
            return {'id': name, 'modelId': name, 'sha': repo.commit, 'private': repo.private,
                    'gated': 'manual' if repo.gated else False, 'disabled': repo.disabled, 'siblings': siblings}

        def resolve(self, path):
            m = re.fullmatch(r'(?:/models)?/([^/]+(?:/[^/]+)?)/resolve/([^/]+)/(.+)', path)
            repo = hub.repos.get(m.group(1)) if m else None
            if self.allowed(repo, True) is not True:
                return None
            file = urllib.parse.unquote(m.group(3))
            if urllib.parse.unquote(m.group(2)) not in repo.revisions + [repo.commit, 'master']:
                return self.error(404, 'RevisionNotFound')
            if file not in repo.files:
                return self.error(404, 'EntryNotFound', 'Entry not found')
            data = repo.files[file]
            sha = hashlib.sha256(data).hexdigest()
            if (m.group(1), file) in hub.elsewhere:
                return self.reply(302, Location=hub.elsewhere[(m.group(1), file)], X_Repo_Commit=repo.commit)
            if len(data) <= 2000:  # stored in git
                return self.send_file(data, '"%s"' % sha)
            return self.reply(302, Location='%s/blobs/%s?%s' % (hub.files_url, sha, SIGNATURE),
                              X_Repo_Commit=repo.commit, X_Linked_Size=str(len(data)), X_Linked_ETag='"%s"' % sha)

        # ---- ModelScope: modelscope 1.40.2 ----

        def modelscope_api(self, path):
            m = re.fullmatch(r'/api/v1/models/([^/]+/[^/]+)/repo/files', path)
            repo = hub.repos.get(m.group(1)) if m else None
            revision = urllib.parse.parse_qs(self.request_row.query).get('Revision', [''])[0]
            if repo is None or revision not in ('master', 'v1') or (repo.private and self.token() not in hub.tokens):
                return self.reply(404, b'{"Code":10010205001,"Success":false,"Message":"no"}')
            files = [{'Path': f, 'Size': len(d), 'Type': 'blob', 'Sha256': hashlib.sha256(d).hexdigest()}
                     for f, d in sorted(repo.files.items())]
            files.append({'Path': 'folder', 'Size': 0, 'Type': 'tree'})
            return self.reply(200, json.dumps({'Code': 200, 'Success': True, 'Data': {'Files': files}}).encode())

        do_HEAD = do_GET

    return Handler
