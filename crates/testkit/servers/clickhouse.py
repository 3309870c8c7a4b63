"""ClickHouse for tests: chdb in this process behind as much of its HTTP interface as is used.

    python3 clickhouse.py FOLDER PORT
"""

import sys
import tempfile
from http.server import BaseHTTPRequestHandler, HTTPServer
from urllib.parse import parse_qsl, urlsplit

from chdb.session import Session

SESSION = Session(sys.argv[1])


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        settings = dict(parse_qsl(urlsplit(self.path).query))
        query = settings.pop("query", None)
        settings.pop("wait_end_of_query", None)
        try:
            status, answer = 200, run(query, settings, body)
        except Exception as error:
            status, answer = (400 if "Cannot parse" in str(error) else 500), str(error).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


def run(query, settings, body):
    if query is None:
        return SESSION.query(body.decode()).bytes()
    if not query.startswith("INSERT"):
        return SESSION.query(query).bytes()
    # A body of an insert is read from a file: chdb has no input stream.
    into, form = query.split(" FORMAT ")
    named = ", ".join(f"{name} = '{value}'" for name, value in settings.items())
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        file.write(body)
        file.flush()
        table = into.removeprefix("INSERT INTO ")
        where = f"concat(database, '.', table) = '{table}' AND default_kind = ''"
        columns = ask(f"SELECT name, type FROM system.columns WHERE {where} FORMAT TSVRaw")
        columns = [line.split("\t") for line in columns.splitlines()]
        structure = ", ".join(f"`{name}` {kind}" for name, kind in columns).replace("'", "\\'")
        names = ", ".join(f"`{name}`" for name, _ in columns)
        source = f"file('{file.name}', '{form}', '{structure}')"
        ask(f"{into} ({names}) SELECT {names} FROM {source} SETTINGS {named}")
        return b""


def ask(query):
    return SESSION.query(query).bytes().decode()



HTTPServer(("127.0.0.1", int(sys.argv[2])), Handler).serve_forever()
