"""A daemon and its branches, for asyncio. Written by generate.py out of client.py: do not edit."""

from __future__ import annotations

import uuid
from types import TracebackType
from typing import Any, List, Optional, Sequence, Type, cast

import httpx

from . import _place
from ._place import TIMEOUT, Place, Result, Seconds, Statement
from .errors import NotFound
from .models import BranchEvidence, BranchView, SourceView

__all__ = ["AsyncBranch", "AsyncClient"]


class AsyncClient:
    """A daemon: by its socket on this machine, or by its URL and a token.

    Without arguments: ``DURAMEN_URL`` with ``DURAMEN_TOKEN`` (``NAME:SECRET``; ``DURAMEN_CA``: a certificate to trust), else the
    socket of the home. One client may be used by several threads.

    >>> async with AsyncClient() as client:                         # doctest: +SKIP
    ...     print([source["name"] for source in await client.sources()])
    """

    def __init__(
        self,
        url: Optional[str] = None,
        token: Optional[str] = None,
        *,
        home: Optional[str] = None,
        ca: Optional[str] = None,
        timeout: Seconds = TIMEOUT,
    ) -> None:
        # pytest shows the arguments of the functions that an error went through, and one of these is a secret.
        __tracebackhide__ = True
        self._place = Place.find(url, token, home, ca)
        verify = self._place.verify()
        transport = httpx.AsyncHTTPTransport(uds=self._place.socket, verify=verify) if self._place.socket else None
        self._http = httpx.AsyncClient(
            base_url=self._place.base,
            headers=self._place.headers(),
            verify=verify,
            transport=transport,
            timeout=timeout,
            trust_env=False,
        )

    def __repr__(self) -> str:
        return f"AsyncClient({self._place.socket or self._place.base!r})"

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes connections; branches go on."""
        await self._http.aclose()

    async def _ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        timeout: Optional[Seconds] = None,
        key: Optional[str] = None,
    ) -> Any:
        limit = httpx.USE_CLIENT_DEFAULT if timeout is None else timeout
        headers = {} if key is None else {"Idempotency-Key": key}
        for last in (key is None, True):
            try:
                response = await self._http.request(method, path, json=body, timeout=limit, headers=headers)
                return _place.read(response)
            except httpx.HTTPError as error:
                # With a key, what was done is not done again.
                if last or not isinstance(error, _place.LOST):
                    raise self._place.unreachable(error) from None
        raise AssertionError("the last one returns or raises")

    async def _pages(self, path: str) -> List[Any]:
        found: List[Any] = []
        next_path: Optional[str] = f"{path}?limit=1000"
        while next_path:
            try:
                response = await self._http.get(next_path)
            except httpx.HTTPError as error:
                raise self._place.unreachable(error) from None
            found += _place.read(response)
            next_path = response.links.get("next", {}).get("url")
        return found

    async def sources(self) -> List[SourceView]:
        """All sources that the token has."""
        return cast("List[SourceView]", await self._pages("/v1/sources"))

    async def branches(self) -> List[BranchView]:
        """All branches that are there for the token."""
        return cast("List[BranchView]", await self._pages("/v1/branches"))

    async def create(
        self,
        source: Optional[str] = None,
        *,
        name: Optional[str] = None,
        policy: Optional[str] = None,
        ttl: Seconds = 3600,
        wait: Optional[Seconds] = None,
    ) -> "AsyncBranch":
        """Leases a branch: a name that is leased already gives the same one again. ``wait`` is how long it may wait for one to be
        ready (30 s)."""
        body = _place.create_body(source, name, policy, ttl, wait)
        limit = None if wait is None else wait + TIMEOUT
        key = str(uuid.uuid4())
        return AsyncBranch(self, cast(BranchView, await self._ask("POST", "/v1/branches", body, limit, key)))

    async def branch(self, name: str) -> "AsyncBranch":
        """A branch that is there."""
        return AsyncBranch(self, cast(BranchView, await self._ask("GET", _place.path("branches", name))))


class AsyncBranch:
    """A leased branch. As a context manager it is destroyed at the end.

    >>> async with await AsyncClient().create("flights") as branch:       # doctest: +SKIP
    ...     (await branch.query("select count(*) from flights")).scalar()
    336776
    """

    def __init__(self, client: AsyncClient, view: BranchView) -> None:
        self._client = client
        self.view = view

    def __repr__(self) -> str:
        # Not the view, whose URL may hold a secret.
        return f"AsyncBranch({self.name!r} of {self.view['source']!r})"

    async def __aenter__(self) -> "AsyncBranch":
        return self

    async def __aexit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        try:
            await self.destroy()
        except NotFound:
            # It has ended by itself.
            pass

    @property
    def name(self) -> str:
        """Its name."""
        return self.view["name"]

    @property
    def url(self) -> str:
        """For PostgreSQL clients, with the password: do not log it."""
        return self._client._place.entry(self.view["url"])

    def _of(self, *more: str) -> str:
        return _place.path("branches", self.name, *more)

    async def query(
        self,
        sql: str,
        params: Sequence[Any] = (),
        *,
        max_rows: Optional[int] = None,
        timeout: Optional[Seconds] = None,
    ) -> Result:
        """Runs one statement; parameters are ``$1``, ``$2``, and so on. ``timeout`` is the statement's own (30 s)."""
        return (await self.transaction([(sql, params)], max_rows=max_rows, timeout=timeout))[0]

    async def transaction(
        self,
        statements: Sequence[Statement],
        *,
        max_rows: Optional[int] = None,
        timeout: Optional[Seconds] = None,
    ) -> List[Result]:
        """Runs several statements in one transaction."""
        body = _place.query_body(statements, max_rows, timeout)
        limit = None if timeout is None else timeout + TIMEOUT
        return Result.all_of(await self._client._ask("POST", self._of("query"), body, limit))

    async def reset(self) -> None:
        """Puts it back to its snapshot, under the same name and URL."""
        self.view = cast(BranchView, await self._client._ask("POST", self._of("reset")))

    async def renew(self, ttl: Seconds = 3600) -> None:
        """Moves the end of its lease."""
        body = {"ttl_s": max(1, int(ttl))}
        self.view = cast(BranchView, await self._client._ask("POST", self._of("renew"), body))

    async def evidence(self) -> BranchEvidence:
        """What is known of it and of its source, for keeping."""
        return cast(BranchEvidence, await self._client._ask("GET", self._of("evidence")))

    async def destroy(self) -> None:
        """Gives it back."""
        await self._client._ask("DELETE", self._of())
