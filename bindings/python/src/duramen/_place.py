"""Where a daemon is, and how it is spoken to: what the client for programs that wait and the other one share."""

from __future__ import annotations

import json
import os
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union
from urllib.parse import quote, urlsplit, urlunsplit

import httpx

from .errors import DuramenError, Refused, Unreachable, refused

Seconds = float
Statement = Union[str, Tuple[str, Sequence[Any]]]
#: How long a request may take, unless its caller says otherwise. A create waits up to 30 s for a branch by itself.
TIMEOUT: Seconds = 60.0
#: The connection broke when the request was on its way: it may have been done.
LOST = (httpx.ReadError, httpx.WriteError, httpx.RemoteProtocolError)


@dataclass(frozen=True)
class Place:
    """A daemon: its socket, or its address with a token."""

    base: str
    socket: Optional[str]
    name: Optional[str]
    secret: Optional[str] = field(repr=False)
    ca: Optional[str]

    @staticmethod
    def find(url: Optional[str], token: Optional[str], home: Optional[str], ca: Optional[str]) -> "Place":
        """By what the caller says, else by the environment, else the socket of the usual home."""
        # pytest shows the arguments of the functions that an error went through, and one of these is a secret.
        __tracebackhide__ = True
        env = os.environ.get
        url = url or (None if home else env("DURAMEN_URL"))
        if url is None:
            socket = Path(home or env("DURAMEN_HOME") or _usual_home()) / "daemon.sock"
            return Place("http://duramen", str(socket), None, None, None)
        token = token or env("DURAMEN_TOKEN")
        if not token or ":" not in token:
            raise DuramenError("a daemon by its URL needs a token, NAME:SECRET, as token= or in DURAMEN_TOKEN")
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise DuramenError("the URL of a daemon is like https://host:6433")
        if parts.scheme == "http" and parts.hostname not in ("localhost", "127.0.0.1", "::1"):
            raise DuramenError("a token is not sent in the clear to another machine: use https")
        name, secret = token.split(":", 1)
        return Place(url.rstrip("/"), None, name, secret, ca or env("DURAMEN_CA"))

    def headers(self) -> Dict[str, str]:
        """What each request has."""
        if self.name is None:
            return {}
        return {"authorization": f"Bearer {self.name}:{self.secret}"}

    def verify(self) -> Union[bool, ssl.SSLContext]:
        """Whose certificates are trusted."""
        if self.base.startswith("http:"):
            # Nobody shows one, and reading those of the system takes longer than fifty leases.
            return False
        if not self.ca:
            return True
        try:
            return ssl.create_default_context(cafile=self.ca)
        except OSError as error:
            # ssl.SSLError is one: a file without a certificate.
            raise DuramenError(f"the certificate to trust, ca= or DURAMEN_CA, {self.ca}: {error}") from None

    def entry(self, url: str) -> str:
        """The URL by which a PostgreSQL client enters a branch, with the secret that it needs."""
        if self.secret is None or not url:
            return url
        parts = urlsplit(url)
        user, _, rest = parts.netloc.rpartition("@")
        return urlunsplit(parts._replace(netloc=f"{user}:{quote(self.secret, safe='')}@{rest}"))

    def unreachable(self, error: httpx.HTTPError) -> Unreachable:
        """The error for a connection that broke."""
        where = self.socket or self.base
        return Unreachable(f"the daemon at {where} was not reached, or left: {error or type(error).__name__}")


def _usual_home() -> str:
    if os.geteuid() == 0:
        return "/var/lib/duramen"
    data = os.environ.get("XDG_DATA_HOME") or os.path.join(os.path.expanduser("~"), ".local/share")
    return os.path.join(data, "duramen")


def path(*names: str) -> str:
    """A path of the interface, with its names escaped."""
    return "/v1/" + "/".join(quote(name, safe="") for name in names)


def read(response: httpx.Response) -> Any:
    """The value of a reply, or the error for a refusal."""
    if response.is_success:
        return response.json()
    try:
        problem: Mapping[str, Any] = response.json()
    except json.JSONDecodeError:
        raise Refused(response.status_code, "unknown", response.text[:500]) from None
    retry = response.headers.get("retry-after", "")
    raise refused(
        response.status_code,
        str(problem.get("code", "unknown")),
        str(problem.get("detail", "")),
        problem.get("sqlstate"),
        float(retry) if retry.isdigit() else None,
    )


def query_body(
    statements: Sequence[Statement], max_rows: Optional[int], timeout: Optional[Seconds]
) -> Dict[str, Any]:
    """The body of a request for statements."""
    body: Dict[str, Any] = {"statements": [_statement(each) for each in statements]}
    if max_rows is not None:
        body["max_rows"] = max_rows
    if timeout is not None:
        body["timeout_ms"] = max(1, int(timeout * 1000))
    return body


def _statement(statement: Statement) -> Dict[str, Any]:
    if isinstance(statement, str):
        return {"sql": statement}
    sql, params = statement
    return {"sql": sql, "params": list(params)}


def create_body(
    source: Optional[str], name: Optional[str], policy: Optional[str], ttl: Seconds, wait: Optional[Seconds]
) -> Dict[str, Any]:
    """The body of a create."""
    body: Dict[str, Any] = {"ttl_s": max(1, int(ttl))}
    given = {"source": source, "name": name, "policy": policy}
    body.update({key: value for key, value in given.items() if value is not None})
    if wait is not None:
        body["wait_ms"] = int(wait * 1000)
    return body


@dataclass(frozen=True)
class Result:
    """What one statement gave back."""

    #: The names of the columns.
    columns: List[str]
    #: The names of their types, as PostgreSQL has them.
    types: List[str]
    rows: List[List[Any]]
    #: How many rows it returned; ``rows`` may have fewer.
    row_count: int
    #: The command tag: ``SELECT 2``, ``INSERT 0 1``, ...
    command: str
    #: Whether rows were left out, because there were too many.
    truncated: bool

    @staticmethod
    def all_of(reply: Mapping[str, Any]) -> "List[Result]":
        """Those of a reply."""
        return [
            Result(
                [column["name"] for column in each["columns"]],
                [column["type"] for column in each["columns"]],
                each["rows"],
                each["row_count"],
                each["command"],
                each.get("truncated", False),
            )
            for each in reply["results"]
        ]

    @property
    def affected(self) -> int:
        """How many rows it returned or changed."""
        last = self.command.rpartition(" ")[2]
        return int(last) if last.isdigit() else 0

    def dicts(self) -> List[Dict[str, Any]]:
        """The rows by the names of their columns."""
        return [dict(zip(self.columns, row)) for row in self.rows]

    def scalar(self) -> Any:
        """The first value of the first row; ``None`` if there is no row."""
        return self.rows[0][0] if self.rows else None
