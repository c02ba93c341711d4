"""Sphinx's settings for the site that `make docs` builds from the documents and the docstrings."""

import ast
import functools
import json
import sys
from pathlib import Path

from myst_parser.parsers.sphinx_ import MystParser

import tamis

PROJECT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(PROJECT))

from tools.notebooks import markdown  # noqa: E402 - found in the folder of the line above

STUB = ast.parse((PROJECT / "python/tamis/_core.pyi").read_text(encoding="utf-8"))

project = "tamis"
author = "tamis developers"
version = release = tamis.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
include_patterns = ["*.md", "docs/*.md", "docs/*/*.md", "examples/README.md", "examples/notebooks/*.ipynb"]
root_doc = "docs/site/index"
html_theme = "furo"
html_title = "tamis"
html_additional_pages = {"index": "redirect.html"}  # the first page of a web server
templates_path = ["templates"]
html_show_sourcelink = False

myst_heading_anchors = 4  # links name headings as GitHub does: `page.md#some-heading`
default_role = "code"  # docstrings write names as Markdown does
add_module_names = False
python_use_unqualified_type_names = True
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_default_options = {"members": True}
napoleon_numpy_docstring = False
napoleon_use_ivar = True  # fields of dataclasses, which have no docstrings of their own


def setup(app) -> None:  # type: ignore[no-untyped-def]
    """Give the compiled classes the signatures of their stub: a signature at run time has no types."""
    app.connect("autodoc-process-signature", typed_signature)
    app.add_source_suffix(".ipynb", "notebook")
    app.add_source_parser(NotebookParser)


class NotebookParser(MystParser):  # type: ignore[misc]
    """Reads a notebook as the page that it is."""

    supported = ("notebook",)

    def parse(self, inputstring, document):  # type: ignore[no-untyped-def]
        """Parse the text, the code and the outputs of a notebook."""
        super().parse(markdown(json.loads(inputstring)), document)


def typed_signature(app, what, name, found, options, signature, returns):  # type: ignore[no-untyped-def]
    """Return the signature and the type of the result that the stub has for a compiled function."""
    stub = definition(name.removeprefix("tamis.").removeprefix("words."))
    if type(found).__name__ not in ("method_descriptor", "builtin_function_or_method") or stub is None:
        return signature, returns
    stub.args.args = [each for each in stub.args.args if each.arg != "self"]
    return f"({ast.unparse(stub.args)})", ast.unparse(stub.returns) if stub.returns else None


@functools.cache
def definition(name: str) -> ast.FunctionDef | None:
    """Find a function or method in the stub by its dotted name."""
    body: list[ast.stmt] = STUB.body
    for part in name.split("."):
        matching = [node for node in body if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == part]
        if not matching:
            return None
        body = matching[0].body
    return matching[0] if isinstance(matching[0], ast.FunctionDef) else None
