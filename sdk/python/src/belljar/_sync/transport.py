# Made from _async/transport.py by scripts/generate.py. Do not edit.
"""Requests and their answers, over reused connections."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import Any, Optional, TypeVar, Union

from .. import _websocket as ws
from .. import errors
from .._address import Address, clean, query
from .._body import Body
from .._http import Answer, Garbled, Head, request
from .._local import Local
from .._retry import PATIENCE, SILENCE, Passing, Patience, judge, stranger
from .._wire import Leaving, Wire, Silent, aside, foreign, pause
from ..errors import CanceledError, InternalError, InvalidRequestError, UnreachableError
from .incoming import Incoming, decode

MAX_FAILURE = 1 << 20  # bytes of an answer that describes a failure
IDLE = 16  # connections to keep
DIAL = 10.0  # seconds
LATE = 2.0  # seconds that an answer may come after the caller's deadline
CONTINUE = 10.0  # seconds to wait for the server's "continue" before sending a large body: a busy server takes a while

T = TypeVar("T")


class Ask:
    """One request to the server. ``again`` means that repeating it has no second effect."""

    def __init__(
        self,
        method: str,
        target: str,
        body: Any = None,
        *,
        values: Optional[Mapping[str, Any]] = None,
        headers: Optional[Mapping[str, str]] = None,
        key: Optional[str] = None,
        source: Optional[Body] = None,
        again: Optional[bool] = None,
        longer: float = 0.0,
        until: Optional[float] = None,
        brief: bool = False,
        accept: tuple[int, ...] = (),
    ) -> None:
        self.method = method
        self.target = target + query(values or {})
        self.headers = {"Accept": "application/json", **(headers or {})}
        self.raw = None if body is None else _dump(body)
        self.source = source
        self.longer = longer  # extra seconds for the answer
        self.until = until  # when the caller stops waiting, on the monotonic clock
        self.accept = accept  # statuses that are not failures
        self.sent = False  # set once the server may have accepted a try
        self.brief = brief  # a short timeout: the caller is about to exit
        if key is not None:
            self.headers["Idempotency-Key"] = key
        if body is not None:
            self.headers["Content-Type"] = "application/json"
        for name, value in self.headers.items():
            if not clean(value) or not value.isascii():
                raise InvalidRequestError(f"{name} has characters that cannot be sent", details={"field": name})
        if source is not None and source.whole is not None:
            self.raw, self.source = source.whole, None
        self.again = (method != "POST" or key is not None) if again is None else again


def _dump(body: Any) -> bytes:
    try:
        return json.dumps(body, separators=(",", ":"), ensure_ascii=False, allow_nan=False, default=_plain).encode("utf-8")
    except (TypeError, ValueError, RecursionError) as e:
        raise InvalidRequestError(f"the request cannot be sent: {e}") from None


def _plain(value: Any) -> dict[str, Any]:
    if isinstance(value, Mapping):  # json writes only the built-in one
        return dict(value)
    raise TypeError(f"{type(value).__name__} has no form in JSON")


class Transport:
    """The connections to one server. Safe for concurrent use."""

    def __init__(
        self,
        address: Union[Address, Local],
        *,
        api_key: Optional[str] = None,
        bearer: Optional[str] = None,
        source: str = "python",
        patience: float = PATIENCE,
        silence: float = SILENCE,
    ) -> None:
        api_key, bearer = (text and text.strip() for text in (api_key, bearer))  # a file of a key ends with a line break
        if api_key and bearer:
            raise InvalidRequestError("give an API key or a bearer token, not both")
        self.patience, self.silence = patience, silence
        self.local = address if isinstance(address, Local) else None
        self.address = Address("unix:/") if isinstance(address, Local) else address
        self._located = self.local is None
        self.headers = [("Host", self.address.authority), ("X-Belljar-Source", source)]
        if api_key:
            self.headers.append(("X-API-KEY", api_key))
        if bearer:
            self.headers.append(("Authorization", "Bearer " + bearer))
        for _, value in self.headers:
            if not clean(value) or not value.isascii():
                raise InvalidRequestError("the API key or the source has characters that cannot be sent")
        self._idle: list[Wire] = []
        self.leaving = Leaving()  # remaining work for abandoned calls
        self._met = False  # the address has accepted a connection once
        self._closed = False

    def ask(self, ask: Ask, *fields: str) -> Any:
        """Sends a request and decodes the answer, which must be an object with these fields; None if it is empty and there are none."""
        answer = self.repeat(ask, decode)
        if fields and (not isinstance(answer, dict) or any(name not in answer for name in fields)):
            raise InternalError(f"the server's answer has no {', '.join(fields)}", hint="check that this is the address of a belljar")
        return answer

    def repeat(self, ask: Ask, take: Callable[[Incoming], T]) -> T:
        """Sends a request, repeats it if necessary, and passes a successful answer to ``take``."""
        patience = Patience(min(self.patience, 2.0), time.monotonic()) if ask.brief else Patience(self.patience)
        while True:
            try:
                return take(self.attempt(ask))
            except Passing as failure:
                if ask.source is not None or not (ask.again or failure.refused):
                    raise failure.error from failure.__cause__
                delay = patience.wait(failure)
                if ask.until is not None and time.monotonic() + delay > ask.until:
                    raise errors.TimeoutError("the time to wait is over") from failure.error
            pause(delay)

    def attempt(self, ask: Ask) -> Incoming:
        """Sends a request once, and returns a successful answer. The caller reads and closes its body."""
        silence = 5.0 if ask.brief else self.silence + ask.longer
        dial = DIAL
        if ask.until is not None:
            left = max(ask.until - time.monotonic(), 0.0) + LATE
            silence, dial = min(silence, left), min(dial, left)
        wire, used = self._connection(dial)
        sent, ask.sent = ask.sent, True
        answer = Answer(ask.method)
        try:
            unsent: Optional[Exception] = None
            try:
                self._send(wire, answer, ask, min(silence, self.silence))
            except OSError as e:
                if foreign(e) or ask.source is not None and e is ask.source.fault:
                    raise
                unsent = e  # the server may have answered before it had read everything
            head = answer.head()
            while head is None:
                try:
                    answer.feed(wire.recv(0.0 if isinstance(unsent, Silent) else silence))
                    head = answer.head()
                except (OSError, EOFError) as e:
                    raise (e if foreign(e) else unsent or e) from None
        except (OSError, EOFError, Garbled) as e:
            wire.close()
            if ask.source is not None and e is ask.source.fault:
                raise
            failure = self.broken(e, f"server {self.address} does not answer")
            if used and answer.fresh and not isinstance(e, TimeoutError):
                failure.after = 0.0  # the server had closed the idle connection
            raise failure from e
        except BaseException:
            wire.close()
            raise
        incoming = Incoming(self, wire, answer, head, silence)
        if head.status < 300 or head.status in ask.accept:
            return incoming
        raw = b""
        with incoming:
            try:
                raw = incoming.read(MAX_FAILURE)
            except (Passing, InternalError):
                pass  # the status is enough
        answered = judge(head, _parsed(head, raw))
        if isinstance(answered, Passing) and answered.untaken:
            ask.sent = sent
        raise answered

    def _send(self, wire: Wire, answer: Answer, ask: Ask, silence: float) -> None:
        headers = [*self.headers, *ask.headers.items()]
        source, size = ask.source, 0 if ask.raw is None else len(ask.raw)
        chunked = False
        if source is not None:
            chunked = source.size is None
            size = source.size or 0
        if chunked:
            headers.append(("Transfer-Encoding", "chunked"))
        elif size or ask.method in ("POST", "PUT"):
            headers.append(("Content-Length", str(size)))
        patient = source is not None and (chunked or size > 64 << 10)
        if patient:  # the server may refuse the request without its body
            headers.append(("Expect", "100-continue"))
        if self.address.relayed and self.address.proxy is not None and self.address.proxy.authorization:
            headers.append(("Proxy-Authorization", self.address.proxy.authorization))
        head = request(ask.method, self.address.target(ask.target), headers)
        answer.sent = False
        if source is None:
            wire.send(head + (ask.raw or b""), silence)
            answer.sent = True
            return
        wire.send(head, silence)
        if patient and not self._invited(wire, answer):
            return
        while True:
            piece = aside(source.read)
            if chunked:
                wire.send(b"%x\r\n%b\r\n" % (len(piece), piece), silence)
            elif piece:
                wire.send(piece, silence)
            if not piece:
                answer.sent = True
                return

    def _invited(self, wire: Wire, answer: Answer) -> bool:
        """Whether the server accepts the body. A server that does not answer does."""
        while True:
            try:
                answer.feed(wire.recv(CONTINUE))
            except Silent:
                return True
            if answer.interim() == 100:
                return True
            if answer.head() is not None:
                return False

    def _connection(self, dial: float) -> tuple[Wire, bool]:
        self._begin()
        while self._idle:
            try:
                wire = self._idle.pop()
            except IndexError:  # another thread was first
                break
            if wire.usable:
                return wire, True
            wire.close()
        return self._dial(dial), False

    def _begin(self) -> None:
        if self._closed:
            raise CanceledError("the client is closed")
        if not self._located:
            self._locate()

    def _locate(self) -> None:
        """Waits for the private belljar, and gets its address."""
        assert self.local is not None
        server = aside(self.local.ready)
        if not self._located:  # another thread may have been first
            self.address = Address("unix:" + server["socket"])
            self.headers = [*self.headers, ("X-API-KEY", server["api_key"])]
            self._located = self._met = True  # it has announced itself

    def _dial(self, timeout: float = DIAL, tunnel: bool = False) -> Wire:
        try:
            wire = Wire.dial(self.address, timeout, tunnel)
        except OSError as e:
            failure = self.broken(e, f"server {self.address} cannot be reached")
            if not self._met and not isinstance(e, TimeoutError):
                raise failure.error from e  # a wrong address is more likely than a brief outage
            failure.refused = True
            raise failure from e
        self._met = True
        return wire

    def broken(self, cause: BaseException, message: str) -> Passing:
        """Returns the error of a failure without an answer from the server. An exception of the caller's own program is raised as it is."""
        if foreign(cause):
            raise cause
        if self.local is not None and not self.local.alive:
            return Passing(self.local.over(), most=0)
        if isinstance(cause, Garbled):
            return Passing(InternalError(f"{message}: {cause}", hint="check that this is the address of a belljar"), most=0)
        hint = "check the address, and that belljar serve is running there"
        untrusted = type(cause).__name__ == "SSLCertVerificationError"
        if untrusted:
            hint = "if the certificate is right, make its issuer known: SSL_CERT_FILE names a file of those to trust"
        return Passing(UnreachableError(f"{message}: {cause or type(cause).__name__}", hint=hint), most=0 if untrusted else None)

    def back(self, wire: Wire, reusable: bool) -> None:
        """Takes a connection back for reuse."""
        if reusable and not self._closed and len(self._idle) < IDLE:
            self._idle.append(wire)
        else:
            wire.close()

    def upgrade(self, target: str, values: Mapping[str, Any]) -> tuple[Wire, ws.Decoder]:
        """Opens a WebSocket. The caller must close the connection."""
        self._begin()
        key = ws.new_key()
        wire = self._dial(tunnel=True)
        answer = Answer("GET")
        try:
            extra = [("Upgrade", "websocket"), ("Connection", "Upgrade"), ("Sec-WebSocket-Version", "13"), ("Sec-WebSocket-Key", key)]
            wire.send(request("GET", self.address.base + target + query(values), [*self.headers, *extra]), self.silence)
            head = answer.head()
            while head is None:
                answer.feed(wire.recv(self.silence))
                head = answer.head()
            if head.status != 101:
                incoming = Incoming(self, wire, answer, head, self.silence)
                raise judge(head, _parsed(head, incoming.read(MAX_FAILURE)))
            if head.get("sec-websocket-accept") != ws.accepted(key):
                raise stranger(head)
        except (OSError, EOFError, Garbled) as e:
            wire.close()
            raise self.broken(e, f"server {self.address} does not answer") from e
        except BaseException:
            wire.close()
            raise
        return wire, ws.Decoder(answer.rest)

    def close(self) -> None:
        """Closes the idle connections, after the cleanup for abandoned calls."""
        try:
            self.leaving.wait()
        finally:  # also if a task is cancelled while it waits
            self.cut()
            if self.local is not None:
                aside(self.local.close)

    def cut(self) -> None:
        """Closes the idle connections, and those in use once they are idle."""
        self._closed = True
        while self._idle:
            try:
                self._idle.pop().close()
            except IndexError:
                break


def _parsed(head: Head, raw: bytes) -> Any:
    if head.mime != "application/json":
        return None
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        return None
