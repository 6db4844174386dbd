"""Templates: named sets of an image, packages, environment and files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, List, cast

from .._address import path
from .transport import Ask, AsyncTransport

if TYPE_CHECKING:
    from .. import types


BUILD = 7200.0  # extra seconds for an answer that waits for a build


class AsyncTemplates:
    """The caller's templates and the shared ones. ``run(template=name)`` and ``sessions.create(template=name)`` use one by its name."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    async def build(self, name: str, image: str, **fields: Any) -> types.Template:
        """Builds a template, or rebuilds the existing one of that name, and returns when the build has ended. It builds
        nothing if nothing has changed. The fields are those of ``types.TemplateSpec``: ``run=["make"], env={"A":
        "b"}``.
        """
        spec = {**fields, "name": name, "base_image": image}
        return cast("types.Template", await self._transport.ask(Ask("POST", path("templates"), spec, longer=BUILD), "name"))

    async def get(self, name: str) -> types.Template:
        """Returns a template; NotFoundError if there is none."""
        return cast("types.Template", await self._transport.ask(Ask("GET", path("templates", name)), "name"))

    async def list(self) -> List[types.Template]:
        """Lists the templates by name."""
        return cast("List[types.Template]", (await self._transport.ask(Ask("GET", path("templates")), "items"))["items"])

    async def remove(self, name: str, *, shared: bool = False) -> None:
        """Removes a template and its files; with ``shared`` the shared one of that name (operators only)."""
        await self._transport.ask(Ask("DELETE", path("templates", name), values={"shared": "true"} if shared else None, again=False))
