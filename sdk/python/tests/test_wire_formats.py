"""HTTP, WebSockets, events and frames, without connections."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from belljar import _frame, _spec, _websocket
from belljar._events import Events
from belljar._frame import Excerpt, Frame, Printed
from belljar._http import Answer, Garbled
from belljar._run import RunState


def body_of(raw: bytes, method: str, cuts: list[int], ends: bool = True) -> tuple[int, bytes, Answer]:
    """Parses an answer that arrives in pieces."""
    answer, body = Answer(method), b""
    pieces = [raw[a:b] for a, b in zip([0, *cuts], [*cuts, len(raw)]) if a < b]
    status = 0
    for piece in [*pieces, *([b""] if ends else [])]:
        answer.feed(piece)
        head = answer.head()
        if head is None:
            continue
        status = head.status
        while True:
            part = answer.piece()
            if not part:
                break
            body += part
        if answer.complete:
            break
    return status, body, answer


ANSWERS = {
    "length": (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX: y\r\n\r\nhello", b"hello", True),
    "none": (b"HTTP/1.1 204 No Content\r\n\r\n", b"", True),
    "empty": (b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", b"", True),
    "chunks": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2;x=y\r\nlo\r\n0\r\nTrailer: 1\r\n\r\n", b"hello", True),
    "no chunks": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", b"", True),
    "close": (b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello", b"hello", False),
    "closing": (b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello", b"hello", False),
    "old": (b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello", b"hello", False),
    "interim": (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", b"hello", True),
    "crlf in chunk": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n\r\n\r\n\r\n0\r\n\r\n", b"\r\n\r\n", True),
}


@pytest.mark.parametrize("name", list(ANSWERS))
def test_answers_in_any_pieces(name: str) -> None:
    raw, want, reusable = ANSWERS[name]
    for cut in range(len(raw)):
        _, body, answer = body_of(raw, "GET", [cut] if cut else [])
        assert (body, answer.complete, answer.reusable) == (want, True, reusable), cut
    _, body, _ = body_of(raw, "GET", list(range(1, len(raw))))
    assert body == want


def test_head_has_no_body() -> None:
    status, body, answer = body_of(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", "HEAD", [])
    assert (status, body, answer.reusable) == (200, b"", True)


@pytest.mark.parametrize(
    "raw",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 1, 2\r\n\r\n", b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", b"HTTP/1.1 2000\r\n\r\n", b"SSH-2.0-x\r\n\r\n", b"x" * (300 << 10),
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"f" * 40 + b"\r\n", b"HTTP/1.1 200 OK\r\n folded: x\r\n\r\n",
    ],
)  # fmt: skip
def test_what_is_not_http(raw: bytes) -> None:
    with pytest.raises(Garbled):
        body_of(raw, "GET", [])


@pytest.mark.parametrize("name", ["length", "chunks", "no chunks", "crlf in chunk"])
def test_half_answers_are_told(name: str) -> None:
    raw = ANSWERS[name][0]
    for end in range(1, len(raw)):
        with pytest.raises(EOFError):
            body_of(raw[:end], "GET", [])


def test_what_comes_behind_an_answer() -> None:
    raw = b"HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\n\r\n\x81\x02hi"
    answer = Answer("GET")
    answer.feed(raw)
    head = answer.head()
    assert head is not None and head.status == 101 and answer.rest == b"\x81\x02hi"
    _, body, surplus = body_of(ANSWERS["length"][0] + b"surplus", "GET", [], ends=False)
    assert body == b"hello" and not surplus.reusable


def test_events_in_any_pieces() -> None:
    raw = b"retry: 1000\n\nid: 1\nevent: stdout\ndata: {\"a\":1}\n\n: still here\n\nevent:x\r\ndata:one\r\ndata: two\r\n\r\ndata: nameless\n\nevent: half\ndata: not whole"
    want = [("stdout", b'{"a":1}'), ("x", b"one\ntwo"), ("", b"nameless")]
    for cut in range(len(raw)):
        events = Events()
        assert events.feed(raw[:cut]) + events.feed(raw[cut:]) == want
    events = Events()
    assert [e for i in range(len(raw)) for e in events.feed(raw[i : i + 1])] == want


def server_frame(kind: int, data: bytes, final: bool = True) -> bytes:
    n = len(data)
    size = bytes([n]) if n < 126 else b"\x7e" + n.to_bytes(2, "big") if n < 65536 else b"\x7f" + n.to_bytes(8, "big")
    return bytes([kind | (0x80 if final else 0)]) + size + data


@pytest.mark.parametrize("size", [0, 1, 125, 126, 65535, 65536, 200_000])
def test_websocket_messages(size: int) -> None:
    data = random.Random(size).randbytes(size)
    decoder = _websocket.Decoder()
    decoder.feed(server_frame(_websocket.BINARY, data))
    assert decoder.next() == (_websocket.BINARY, data) and decoder.next() is None
    sent = _websocket.encode(_websocket.BINARY, data)  # the client's frame, which must be masked
    at = 2 + (0 if size < 126 else 2 if size < 65536 else 8)
    mask, masked = sent[at : at + 4], sent[at + 4 :]
    assert sent[1] & 0x80 and bytes(b ^ mask[i % 4] for i, b in enumerate(masked)) == data


def test_websocket_pieces_and_control_between() -> None:
    raw = (
        server_frame(_websocket.TEXT, b"one ", False) + server_frame(_websocket.PING, b"?") + server_frame(0, b"two ", False)
        + server_frame(0, b"three") + server_frame(_websocket.CLOSE, (4010).to_bytes(2, "big") + "ersetzt ü".encode())
    )  # fmt: skip
    for cut in range(len(raw)):
        decoder, found = _websocket.Decoder(raw[:cut]), []
        for more in (raw[cut:], b""):
            while True:
                message = decoder.next()
                if message is None:
                    break
                found.append(message)
            decoder.feed(more)
        assert found[:2] == [(_websocket.PING, b"?"), (_websocket.TEXT, b"one two three")]
        assert (found[2].code, found[2].reason) == (4010, "ersetzt ü") and len(found) == 3


@pytest.mark.parametrize(
    "raw",
    [
        server_frame(0, b"x"), server_frame(_websocket.TEXT, b"x", False) + server_frame(_websocket.TEXT, b"y"), server_frame(3, b""),
        server_frame(_websocket.PING, b"x" * 126), server_frame(_websocket.PING, b"x", False), b"\x81\x82....xx", b"\xc1\x00",
        b"\x82\x7f" + (1 << 62).to_bytes(8, "big"),
    ],
)  # fmt: skip
def test_what_is_no_websocket(raw: bytes) -> None:
    decoder = _websocket.Decoder(raw)
    with pytest.raises(_websocket.Violation):
        while decoder.next() is not None:
            pass


def test_the_key_of_rfc_6455() -> None:
    assert _websocket.accepted("dGhlIHNhbXBsZSBub25jZQ==") == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="


def test_frames() -> None:
    frame = Frame.parse(b'{"type":"stdout","encoding":"base64","data":"AP8=","seq":7}')
    assert (frame.seq, frame.type, frame.data, frame.text) == (7, "stdout", b"\x00\xff", "\x00�")
    assert Frame.parse(json.dumps({"type": "stderr", "encoding": "utf8", "data": "grüße", "seq": 1}).encode()).data == "grüße".encode()
    end = Frame.parse(b'{"type":"event","event":"end","data":{"exit_code":0},"seq":9}')
    assert end.last and not end.note and end.info == {"exit_code": 0}
    assert Frame.parse(b'{"type":"event","event":"resume","data":{},"seq":9}').note
    assert Frame.parse(b'{"type":"truncated","reason":"log_cap","seq":9}').reason == "log_cap"
    for raw in (b"", b"[]", b"{}", b'{"type":"stdout","seq":1}', b'{"type":"stdout","seq":1,"encoding":"rot13","data":""}', b"null", b"\xff"):
        with pytest.raises(ValueError):
            Frame.parse(raw)


@pytest.mark.parametrize("seed", range(20))
def test_head_and_tail_of_long_output(seed: int) -> None:
    rand = random.Random(seed)
    alphabet = ["a", "é", "文", "🙂"]
    size = rand.choice([0, 10, _frame.INLINE - 3, _frame.INLINE, _frame.INLINE + 1, 3 * _frame.INLINE])
    text = "".join(rand.choices(alphabet, k=size // 3)).encode()
    excerpt = Excerpt()
    at = 0
    while at < len(text):
        n = rand.choice([1000, 45 << 10, 600 << 10])
        excerpt.add(text[at : at + n])
        at += n
    kept, gap, omitted = excerpt.kept()
    assert len(kept) + omitted == len(text)
    if len(text) <= _frame.INLINE:
        assert (kept, gap, omitted) == (text, 0, 0)
    else:
        assert kept == text[:gap] + text[gap + omitted :] and kept.decode()  # no character is split
        assert _frame.INLINE - 8 < len(kept) <= _frame.INLINE


def test_the_last_byte_before_a_gap_stays_unless_it_begins_a_character() -> None:
    for byte in range(0x80, 0x100):
        head = b"x" * (_frame.INLINE // 2 - 1) + bytes([byte])
        excerpt = Excerpt()
        excerpt.add(head)
        excerpt.add(b"y" * _frame.INLINE)
        assert len(excerpt.kept()[0]) == _frame.INLINE - (1 if 0xC2 <= byte <= 0xF4 else 0), hex(byte)


def test_output_of_a_log() -> None:
    printed = Printed()
    raw: list[dict[str, Any]] = [
        {"type": "stdout", "encoding": "utf8", "data": "a", "seq": 1}, {"type": "stderr", "encoding": "utf8", "data": "b", "seq": 2},
        {"type": "stdout", "encoding": "base64", "data": "/w==", "seq": 3}, {"type": "event", "event": "end", "seq": 4},
    ]  # fmt: skip
    for one in raw:
        printed.add(Frame(one))
    assert printed.answer() == {"stdout": b"a\xff", "stdout_truncated": False, "stderr": b"b", "stderr_truncated": False}
    printed.add(Frame({"type": "truncated", "reason": "log_cap", "seq": 5}))
    assert printed.answer()["stdout_truncated"] is True


def test_what_a_run_says_of_its_limits() -> None:
    weak = RunState({"id": "1", "warnings": ["limits not enforced"], "limits_enforced": {"memory": "RLIMIT_DATA of each process"}})
    assert weak.warnings == ["limits not enforced"]
    assert weak.limits_enforced == {"memory": "RLIMIT_DATA of each process"}
    assert (RunState({"id": "1"}).warnings, RunState({"id": "1"}).limits_enforced) == ([], {})


def test_an_explicit_zero_is_sent() -> None:
    spec = _spec.run(command="true", timeout=0, resources={"memory_mb": 0})
    assert (spec["timeout_sec"], spec["resources"]) == (0, {"memory_mb": 0})
    assert "timeout_sec" not in _spec.run(command="true")
