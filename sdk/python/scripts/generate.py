"""Generates source files.

- ``belljar/_sync/`` from ``belljar/_async/``: the same code without await.
- ``belljar/types.py`` from ``spec/openapi.yaml``: the API's requests and answers, as TypedDicts.

``generate.py`` writes them; ``generate.py --check`` only lists the stale ones, and fails if there
are any.
"""

from __future__ import annotations

import keyword
import re
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent.parent
PACKAGE = HERE / "src" / "belljar"
SPEC = HERE.parent.parent / "spec" / "openapi.yaml"

WORDS = [
    (r"\.\._wire_async\b", ".._wire"),
    (r"\basync (def|with|for)\b", r"\1"),
    (r"\bawait ", ""),
    (r"\bAsync([A-Z]\w*)", r"\1"),
    (r"__aenter__", "__enter__"),
    (r"__aexit__", "__exit__"),
    (r"__aiter__", "__iter__"),
    (r"\bAwaitable\[([^\]]*)\]", r"\1"),
    (r"from collections\.abc import (.*)\n", lambda m: _imports(m.group(1))),
    (r", and awaited if it is async", ""),
    (r"a cancelled task or Ctrl-C", "or by Ctrl-C"),
    (r"a cancelled task, Ctrl-C", "Ctrl-C"),
]

MADE = {"NewToken": ("Token", "secret")}  # answers with a field that the schema has only for them


def _imports(names: str) -> str:
    kept = [name for name in names.split(", ") if name != "Awaitable"]
    return f"from collections.abc import {', '.join(sorted(kept))}\n"


def blocking(source: str, name: str) -> str:
    """Converts an async module to a sync one."""
    text = source
    for pattern, to in WORDS:
        text = re.sub(pattern, to, text)  # type: ignore[arg-type]
    return f"# Made from _async/{name} by scripts/generate.py. Do not edit.\n{text}"


def types(spec: dict[str, Any]) -> str:
    """Generates the TypedDicts of an API's schemas."""
    out = [
        "# Made from spec/openapi.yaml by scripts/generate.py. Do not edit.",
        '"""What the API takes and answers, as it travels. Servers that are newer may tell more."""',
        "",
        "from __future__ import annotations",
        "",
        "from typing import Any, Dict, List, Literal, Optional, TypedDict",
    ]
    schemas = dict(spec["components"]["schemas"])
    for name, (of, field) in MADE.items():
        schemas[name] = {**schemas[of], "required": [*schemas[of]["required"], field]}
    for name, schema in sorted(schemas.items()):
        if schema.get("properties"):
            out += ["", "", *_class(name, schema)]
    return "\n".join(out) + "\n"


def _class(name: str, schema: dict[str, Any]) -> list[str]:
    must = set(schema.get("required", []))
    properties = schema["properties"]
    if any(keyword.iskeyword(field) for field in properties):  # only the call syntax allows keywords; it has one totality
        pairs = ", ".join(f'"{field}": {_type(s, quoted=True)}' for field, s in properties.items())
        return [f'{name} = TypedDict("{name}", {{{pairs}}}, total=False)']
    base = "TypedDict"
    out: list[str] = []
    parts = [([f for f in properties if f in must], ""), ([f for f in properties if f not in must], ", total=False")]
    parts = [part for part in parts if part[0]]
    for i, (fields, total) in enumerate(parts):
        last = i == len(parts) - 1
        own = name if last else f"_{name}"
        out += ([""] * 2 if out else []) + [f"class {own}({base}{total}):"]
        if last and schema.get("description"):
            out.append(f'    """{_line(schema["description"])}"""')
            out.append("")
        for field in fields:
            about = properties[field].get("description")
            out.append(f"    {field}: {_type(properties[field])}")
            if about:
                out.append(f'    """{_line(about)}"""')
        base = own
    return out


def _line(text: str) -> str:
    text = " ".join(text.split()).replace("\\", "\\\\").replace('"""', "'''")
    if text.endswith('"'):
        text += " "
    return text if text.endswith((".", " ")) else text + "."


def _type(schema: dict[str, Any], quoted: bool = False) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[-1]
        return f'"{name}"' if quoted else name
    kind = schema.get("type")
    if isinstance(kind, list):
        rest = [one for one in kind if one != "null"]
        inner = _type({**schema, "type": rest[0]}, quoted) if len(rest) == 1 else "Any"
        return f"Optional[{inner}]" if "null" in kind else inner
    if schema.get("enum"):
        return "Literal[" + ", ".join(repr(one).replace("'", '"') for one in schema["enum"]) + "]"
    if kind == "array":
        return f"List[{_type(schema.get('items', {}), quoted)}]"
    if kind == "object":
        more = schema.get("additionalProperties")
        return f"Dict[str, {_type(more, quoted) if isinstance(more, dict) else 'Any'}]"
    return {"string": "str", "integer": "int", "number": "float", "boolean": "bool"}.get(str(kind), "Any")


def files() -> dict[Path, str]:
    """The generated files: their contents by path."""
    import yaml

    made = {PACKAGE / "types.py": types(yaml.safe_load(SPEC.read_text("utf-8")))}
    for source in sorted((PACKAGE / "_async").glob("*.py")):
        text = source.read_text("utf-8")
        made[PACKAGE / "_sync" / source.name] = blocking(text, source.name) if text else ""
    return made


def main(args: list[str]) -> int:
    made = files()
    stale = [path for path, text in made.items() if not path.exists() or path.read_text("utf-8") != text]
    stale += [path for path in (PACKAGE / "_sync").glob("*.py") if path not in made]
    for path in stale:
        print(path.relative_to(HERE))
        if "--check" not in args:
            if path in made:
                path.parent.mkdir(exist_ok=True)
                path.write_text(made[path], "utf-8")
            else:
                path.unlink()
    return 1 if stale and "--check" in args else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
