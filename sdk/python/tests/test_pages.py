"""Lists that the server gives in pages."""

from __future__ import annotations

from typing import Any

from conftest import got


async def test_a_snapshot_made_between_two_pages_repeats_none(connect: Any, stage: Any) -> None:
    def pages(a: Any) -> None:
        for offset, ids, more in ((0, range(450, 250, -1), True), (200, range(251, 51, -1), True), (400, range(52, 0, -1), False)):
            a.request()
            assert f"offset={offset}".encode() in a.stage.requests[-1].split(b"\r\n")[0]
            a.answer(200, {"items": [{"snapshot_id": str(i)} for i in ids], "has_more": more})

    found = await got(connect(stage(pages).url).snapshots.list())
    assert [x["snapshot_id"] for x in found] == [str(i) for i in range(450, 0, -1)]
