"""Sphinx configuration."""

import hashlib
import json
import logging
import os
import re
import sys
from pathlib import Path

import kembed

project = "kembed"
author = "The kembed developers"
version = release = kembed.__version__
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = []
nitpicky = False

myst_enable_extensions = ["dollarmath", "amsmath"]
myst_heading_anchors = 3

# The gallery is run whenever it is read; a failure fails the build.
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 300
nb_execution_show_tb = True
nb_execution_in_temp = True
nb_output_stderr = "warn"  # a warning of ours must not go unnoticed into a page
logging.getLogger("traitlets").setLevel(logging.WARNING)

autodoc_member_order = "bysource"
autodoc_typehints = "none"
autodoc_default_options = {"members": True}
default_role = "code"  # what stands in single backticks in a docstring

html_theme = "furo"
html_title = "kembed"
html_static_path = ["_static"]
html_css_files = ["kembed.css"]
html_show_copyright = False
html_math_renderer = "mathml"


def _source() -> str:
    """A fingerprint of the library: when it changes, pages are read and the gallery is run again."""
    files = sorted(Path(kembed.__file__).parent.rglob("*.py"))
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()


def _mathml(self, node) -> None:
    """A formula as MathML, which browsers draw by themselves: pages need no network and no scripts."""
    from docutils import nodes
    from docutils.utils.math import MathError

    block = isinstance(node, nodes.math_block)
    try:
        found = _converted(node.astext().strip(), block)
    except MathError as error:
        import sphinx.util.logging

        sphinx.util.logging.getLogger(__name__).warning("%s in %r", error, node.astext(), location=node)
        found = self.encode(node.astext())
    if block:
        found = f'<div class="math">{found}</div>'
    elif len(node.astext()) > 50:  # wider than a phone: it may scroll
        found = f'<span class="long-math">{found}</span>'
    self.body.append(found)
    raise nodes.SkipNode


def _converted(tex: str, block: bool) -> str:
    """MathML by docutils, mended where it reads TeX otherwise than TeX does."""
    from docutils.utils.math.latex2mathml import tex2mathml

    tex = tex.replace(r"\dots", r"\ldots")
    tex = re.sub(r"(\\[td]?frac)(\d)(\d)", r"\1{\2}{\3}", tex)  # it takes 12 in \tfrac12 for one number
    found = tex2mathml(tex, as_block=block)
    for wrong, right in (
        (r'<mo( stretchy="false")?>([|‖])</mo>', r'<mo stretchy="false" lspace="0" rspace="0">\2</mo>'),
        # \hat\mu_x: the x stands beside, not beneath
        (
            r"<munderover>\s*(<m.*)\s*(<m.*)\s*(<mo.*[ˆˉ]</mo>)\s*</munderover>",
            r'<msub><mover accent="true">\1\3</mover>\2</msub>',
        ),
        ("ˆ</mo>", "^</mo>"),  # which browsers raise above the letter with any font
        # \log x has a thin space, \log(x) has none
        (r"(<mo>&ApplyFunction;</mo>)(?=\s*<m(?!o))", r'\1<mspace width="0.17em"/>'),
    ):
        found = re.sub(wrong, right, found)
    return found


def _prepare_gallery(app) -> None:
    """A folder of the finished site for the files that the gallery writes, and a kernel to run it.

    The kernel is this Python, whatever others are registered on the machine, and it keeps its remarks about
    sockets to itself.
    """
    place = Path(app.outdir) / "files"
    place.mkdir(parents=True, exist_ok=True)
    os.environ["KEMBED_DOCS_FILES"] = str(place)
    home = Path(app.doctreedir) / "jupyter"
    kernel = home / "kernels" / "python3"
    kernel.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "ipykernel_launcher", "--log-level=40", "-f", "{connection_file}"]
    spec = {"argv": command, "display_name": "Python 3", "language": "python"}
    (kernel / "kernel.json").write_text(json.dumps(spec))
    os.environ["JUPYTER_PATH"] = str(home)


def _plain_words(app, what, name, obj, options, lines) -> None:
    """Docstrings are plain words: undo what reStructuredText and napoleon read into them."""
    # |h| is an absolute value, not a substitution.
    lines[:] = [re.sub(r"(?<![\w|])\|(\w+)\|", r"\\|\1\\|", line) for line in lines]
    # "The points: a grid" in the docstring of a property is a sentence, not a type and a description.
    kinds = [line for line in lines if line.startswith(":type:")] if what == "property" else []
    for kind in kinds:
        lines.remove(kind)
        lines[0] = f"{kind.removeprefix(':type:').strip()}: {lines[0]}"


def setup(app) -> None:
    """Formulas without JavaScript, a gallery that runs, and pages as new as the library."""
    app.add_html_math_renderer("mathml", inline_renderers=(_mathml, None), block_renderers=(_mathml, None))
    app.add_config_value("kembed_source", _source(), "env")
    app.connect("builder-inited", _prepare_gallery)
    app.connect("autodoc-process-docstring", _plain_words, priority=800)  # after napoleon
