"""Shows objects for the Python kernel: their representations by MIME type, and adaptations of plotting modules."""
import sys

HERE = sys.path[:1] == [""]
if HERE:
    del sys.path[0]  # until this program's imports are done: a file of the workspace may have the name of a module

import base64
import builtins
import importlib.util
import io
import json
import warnings

__builtins__ = dict(vars(builtins))  # for this program: code may replace those of the module

MOST_TEXT = 256 << 10  # characters of text/plain, and of an error's value
MOST_DATA = 2 << 20  # characters of every other representation
MOST_BUNDLE = 3 << 20  # of all representations together
MOST_ROWS = 1000  # of a table as JSON
INFINITY = float("inf")


def cut(text, most=MOST_TEXT):
    return text if len(text) <= most else "%s\n[%d more characters]" % (text[:most], len(text) - most)


METHODS = (
    ("_repr_html_", "text/html"), ("_repr_markdown_", "text/markdown"), ("_repr_svg_", "image/svg+xml"), ("_repr_png_", "image/png"),
    ("_repr_jpeg_", "image/jpeg"), ("_repr_latex_", "text/latex"), ("_repr_json_", "application/json"),
    ("_repr_javascript_", "application/javascript"), ("_repr_pdf_", "application/pdf"),
)


def call(o, name, *args, **kw):
    """Calls a method of an object's class; None if the class lacks it, or the call fails."""
    if isinstance(o, type):
        return None
    try:
        method = getattr(o, name, None)
        if not callable(method) or not hasattr(type(o), name) and name not in getattr(o, "__dict__", {}):
            return None
        return method(*args, **kw)
    except Exception:
        return None


def bundle(o, shown):
    """Returns the representations of an object, by their MIME types."""
    data = {}
    module = (type(o).__module__ or "").split(".")[0]
    if module == "matplotlib" and hasattr(o, "savefig"):
        shown.add(id(o))
        return figure_bundle(o)
    given = call(o, "_repr_mimebundle_", include=None, exclude=None)
    if isinstance(given, tuple) and given:
        given = given[0]
    if isinstance(given, dict):
        data.update(given)
    for method, mime in METHODS:
        if mime not in data:
            value = call(o, method)
            if isinstance(value, tuple) and value:
                value = value[0]
            if value is not None:
                data[mime] = value
    if "image/png" in data:
        data.pop("image/jpeg", None)
    if module == "PIL" and "image/png" not in data:
        picture(o, data)
    if module == "pandas" and hasattr(o, "to_json") and hasattr(o, "head"):
        table(o, data)
    if "text/plain" not in data:
        data["text/plain"] = plain(o)
    if type(o) in (dict, list) and "application/json" not in data and len(data["text/plain"]) < 64 << 10:
        try:
            if json.loads(json.dumps(o, allow_nan=False)) == listed(o):  # otherwise it has values that JSON lacks, like the key 1
                data["application/json"] = o
        except Exception:  # also of a comparison
            pass
    return data


def plain(o):
    try:
        if type(o) in (dict, list, tuple, set) and len(o) <= 1000:
            import pprint

            return pprint.pformat(o, compact=True, width=100, sort_dicts=False)
        return repr(o)
    except KeyboardInterrupt:
        raise
    except BaseException as e:
        return "<%s whose repr failed: %s>" % (type(o).__name__, type(e).__name__)


def picture(o, data):
    """Adds a picture of PIL, in colours that a PNG can have."""
    try:
        out = io.BytesIO()
        o.convert("RGB").save(out, format="png")
        data["image/png"] = out.getvalue()
        data.pop("image/jpeg", None)
    except Exception:
        pass


def table(o, data):
    """Adds a table of pandas as a tabular data resource."""
    try:
        frame = o.to_frame() if hasattr(o, "to_frame") and not hasattr(o, "columns") else o
        head = named(frame.head(MOST_ROWS))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about names
            try:
                made = json.loads(head.to_json(orient="table", index=True, default_handler=str, double_precision=15, date_unit="us"))
                exact(head, made["data"])
            except Exception:  # some values cannot be encoded as JSON
                made = json.loads(head.astype(str).to_json(orient="table", index=True))
        made["total_rows"] = len(frame)
        data["application/vnd.dataresource+json"] = made
    except Exception:
        pass


def exact(head, rows):
    """Replaces floats in the rows of a table: pandas rounds them to some decimal places, and makes infinities null."""
    columns = [(name, head.index.get_level_values(n)) for n, name in enumerate(head.index.names)]
    for name, values in columns + [(name, head[name]) for name in head.columns]:
        for row, value in zip(rows, values.tolist()):
            if isinstance(value, float):
                row[name] = None if value != value else str(value) if value in (INFINITY, -INFINITY) else value


def named(head):
    """Makes the names of a frame's columns and index unique: they become keys of JSON objects. Columns keep their names if possible."""
    taken = set()

    def name(given):
        text = wanted = ".".join(map(str, given)) if isinstance(given, tuple) else str(given)
        count = 0
        while text in taken:
            count += 1
            text = "%s.%d" % (wanted, count)
        taken.add(text)
        return text

    levels = head.index.names
    head.columns = [name(c) for c in head.columns]
    defaults = ["level_%d" % n for n in range(len(levels))] if len(levels) > 1 else ["index"]
    head.index = head.index.set_names([name(d if given is None else given) for d, given in zip(defaults, levels)])
    return head


def listed(o):
    """Returns a value with lists in place of its tuples, as JSON has it."""
    if type(o) is dict:
        return {key: listed(value) for key, value in o.items()}
    return [listed(value) for value in o] if isinstance(o, (list, tuple)) else o


def figure_bundle(figure):
    out = io.BytesIO()
    figure.savefig(out, format="png", bbox_inches="tight")
    return {"image/png": out.getvalue(), "text/plain": plain(figure)}


def unpacked(mime, raw):
    """Returns a representation that was given as bytes: JSON, text, or in base64."""
    if mime.endswith("json"):
        try:
            return json.loads(raw)
        except (ValueError, RecursionError):
            pass
    elif not mime.startswith("text/") and mime not in ("image/svg+xml", "application/javascript"):
        return base64.b64encode(raw).decode()
    return raw.decode("utf-8", "replace")


def bounded(data):
    """Makes representations JSON, and leaves out those that are too large, with a note in the text."""
    kept, notes, total = {}, [], 0
    for mime in sorted(data, key=lambda m: m != "text/plain"):
        value = data[mime]
        if value is None:
            continue
        mime = str(mime)[:100]
        if isinstance(value, (bytes, bytearray, memoryview)):
            value = unpacked(mime, bytes(value))
        if not isinstance(value, str) and not mime.endswith("json"):
            try:
                value = str(value)
            except Exception:
                continue  # treat it like a representation that raised
        elif not isinstance(value, str):
            try:
                text = json.dumps(value, allow_nan=False)
            except (TypeError, ValueError, RecursionError):
                value = text = str(value)
        if mime == "text/plain":
            value = cut(str(value))
        size = len(value if isinstance(value, str) else text)
        if mime != "text/plain" and size > MOST_DATA or total + size > MOST_BUNDLE:
            notes.append("[%s of %d characters was left out]" % (mime, size))
            continue
        total += size
        kept[mime] = value
    if notes:
        kept["text/plain"] = "\n".join([kept.get("text/plain", "")] + notes).strip()
    return kept


class Hooks:
    """Adapts modules after their import, so that the kernel shows their figures."""

    def __init__(self, kernel):
        self.after = {
            "matplotlib.pyplot": lambda m: setattr(m, "show", lambda *_, **__: kernel.show_figures()),
            "IPython.display": lambda m: setattr(m, "display", kernel.display),
            "getpass": lambda m: setattr(m, "getpass", lambda prompt="Password: ", stream=None, **_: kernel.input(prompt, password=True)),
        }

    def find_spec(self, name, path=None, target=None):
        after = self.after.get(name)
        if after is None:
            return None
        for finder in sys.meta_path:
            spec = finder.find_spec(name, path, target) if finder is not self and hasattr(finder, "find_spec") else None
            if spec is not None:
                break
        else:
            return None
        loader = spec.loader

        class Loader:
            def create_module(self, s):
                return loader.create_module(s)

            def exec_module(self, m):
                loader.exec_module(m)
                after(m)

            def __getattr__(self, key):
                return getattr(loader, key)

        spec.loader = Loader()
        return spec


class Shims:
    """Replaces IPython.display in images without IPython."""

    def __init__(self, kernel):
        self.kernel = kernel

    def find_spec(self, name, path=None, target=None):
        if name in ("IPython", "IPython.display"):
            return importlib.util.spec_from_loader(name, self, is_package=name == "IPython")
        return None

    def create_module(self, spec):
        return None

    def exec_module(self, m):
        if m.__name__ == "IPython":
            m.get_ipython, m.version_info = lambda: None, (8, 24, 0)  # matplotlib uses both
            return
        m.display = self.kernel.display
        m.clear_output = lambda wait=False: None
        for name, mime in (
            ("HTML", "text/html"), ("Markdown", "text/markdown"), ("SVG", "image/svg+xml"), ("Latex", "text/latex"), ("Math", "text/latex"),
            ("JSON", "application/json"), ("Javascript", "application/javascript"), ("Image", "image/png"), ("Pretty", "text/plain"),
        ):
            setattr(m, name, shim(name, mime))


def shim(name, mime):
    class Display:
        def __init__(self, data=None, url=None, filename=None, format=None, **_):
            if data is None and filename:
                with open(filename, "rb") as f:
                    data = f.read()
            elif name == "Image" and isinstance(data, str):
                with open(data, "rb") as f:
                    data = f.read()
            self.data = data

        def _repr_mimebundle_(self, include=None, exclude=None):
            kind, data = mime, self.data
            if name == "Image" and isinstance(data, (bytes, bytearray)) and data[:2] == b"\xff\xd8":
                kind = "image/jpeg"
            if name == "Math":
                data = "$\\displaystyle %s$" % data
            return {kind: data, "text/plain": repr(self)}

        def __repr__(self):
            return "<%s>" % name

    Display.__name__ = Display.__qualname__ = name
    return Display
