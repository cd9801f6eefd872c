"""The documentation as a site: `make site` builds it from README, docs, docstrings and examples into build/site.

The pages are the Markdown files of the repository as they stand. What only the site has is added while it is built: the
contents on the first page, the public names on the API page, and the text of the examples.
"""

import inspect
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "src"))

import stcl  # noqa: E402

project = "stcl"
release = version = stcl.__version__
project_copyright = "the authors of stcl, MIT licensed"
extensions = ["sphinx.ext.autodoc", "myst_parser"]

# The source folder is the repository, so that links between pages hold in both places.
CONTENTS = {
    "Use it": ["docs/tutorial", "docs/own-pde", "docs/site/examples", "docs/site/api"],
    "The study": [
        "docs/results",
        "docs/agreement",
        "docs/beyond",
        "docs/inverse",
        "docs/protocol",
        "docs/own-problem",
        "config/README",
    ],
    "Run it elsewhere": ["docs/cluster", "profiles/README"],
    "Work on it": ["docs/architecture", "CONTRIBUTING", "benchmarks/README", "CHANGELOG"],
}
root_doc = "README"
include_patterns = ["README.md", *(f"{page}.md" for pages in CONTENTS.values() for page in pages)]
EXAMPLES = sorted((ROOT / "examples").rglob("*.py"))

html_theme = "furo"  # its scripts are in the site, and its fonts are those of the reader's system: nothing is fetched
html_static_path = ["wide.css"]
html_css_files = ["wide.css"]
html_title = f"stcl {release}"
html_show_sphinx = False
html_copy_source = False
html_show_sourcelink = False

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
highlight_language = "none"
smartquotes = False
autodoc_inherit_docstrings = False  # what torch says of its modules is not about these
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True


def _contents() -> str:
    trees = [
        "\n".join(["```{toctree}", ":hidden:", f":caption: {caption}", "", *(f"/{page}" for page in pages), "```"])
        for caption, pages in CONTENTS.items()
    ]
    return "\n\n" + "\n\n".join(trees) + "\n"


def _names() -> str:
    """The public names in the order in which own-pde.md explains them, then the module that is apart from them."""
    table = (ROOT / "docs/own-pde.md").read_text().split("## Names")[1]
    listed = list(dict.fromkeys(name for name in re.findall(r"`(\w+)`", table) if name in stcl.NAMES))
    blocks = []
    for name in listed + sorted(set(stcl.NAMES) - set(listed)):
        found = getattr(stcl, name)
        shows_fields = hasattr(found, "model_fields")  # settings, whose fields `_as_text` lists
        kind = "autoclass" if inspect.isclass(found) else "autofunction"
        blocks.append(_block(name, kind, members=kind == "autoclass" and not shows_fields))
    return "\n\n" + "\n\n".join([*blocks, _block("inverse", "automodule", members=True)]) + "\n"


def _block(name: str, kind: str, members: bool) -> str:
    option = "\n   :members:" if members else ""
    return f"## {name}\n\n```{{eval-rst}}\n.. {kind}:: stcl.{name}{option}\n```"


def _examples() -> str:
    blocks = []
    for path in EXAMPLES:
        name = path.relative_to(ROOT / "examples")
        blocks.append(f"## {name}\n\n```{{literalinclude}} /examples/{name}\n:language: python\n```")
    return "\n\n" + "\n\n".join(blocks) + "\n"


def _on_read(app, docname, source):
    added = {"README": _contents, "docs/site/api": _names, "docs/site/examples": _examples}
    # Links to examples lead to the page that shows them.
    up = "../" * docname.count("/")
    page = f"{up}docs/site/examples.md"
    text = re.sub(r"\]\((?:\.\./)*examples/([\w/]+)\.py\)", lambda m: f"]({page}#{m[1].replace('/', '')}py)", source[0])
    source[0] = text.replace("](examples)", f"]({page})") + (added[docname]() if docname in added else "")


def _as_text(app, what, name, obj, options, lines):
    """Docstrings are plain text with formulas. They become reStructuredText here, where *, | and ` mean something."""
    paragraphs = [paragraph.split("\n") for paragraph in re.split(r"\n\s*\n", "\n".join(lines).strip("\n"))]
    done = [line for paragraph in paragraphs for line in [*_paragraph(paragraph), ""]]
    for key, field in getattr(obj, "model_fields", {}).items():
        default = "" if field.is_required() else f" (default ``{field.get_default(call_default_factory=True)!r}``)"
        done += [f"``{key}``", f"    {_escaped(field.description or '')}{default}"]
    lines[:] = done


def _paragraph(lines):
    if lines[0].startswith(">>>"):
        return [".. code-block:: pycon", "", *(f"    {line}" for line in lines)]
    if all(line.startswith(" ") for line in lines):
        return ["::", "", *(f"    {line}" for line in lines)]
    if re.match(r"\S.*?  +\S", lines[0]):  # a list of names with their meaning behind them
        rows = [re.match(r"(\S.*?)  +(.*)", line) for line in lines]
        return [
            part
            for line, row in zip(lines, rows, strict=True)
            for part in ([f"``{row[1]}``", f"    {_escaped(row[2])}"] if row else [f"    {_escaped(line.strip())}"])
        ]
    return [_escaped(line) for line in lines]


def _escaped(text):
    """Plain text, in which what stands between backquotes is code."""
    parts = re.split(r"``?([^`]+)``?", text)
    escaped = [re.sub(r"([*|\\]|_(?=\W|$))", r"\\\1", part) for part in parts[::2]]
    code = [f"``{part}``" for part in parts[1::2]]
    return "".join(part for pair in zip(escaped, [*code, ""], strict=True) for part in pair)


def _first_page(app, error):
    """The first page under the name that browsers and servers look for."""
    if error is None:
        out = Path(app.outdir)
        (out / "index.html").write_text((out / "README.html").read_text())


def setup(app):
    app.connect("source-read", _on_read)
    app.connect("autodoc-process-docstring", _as_text)
    app.connect("build-finished", _first_page)
