"""Sphinx: the site of the documents (`make docs`).

The source folder is the top of the repository, so that a link between documents is the same where
they are read as files.
"""

import sys
from importlib.metadata import version as version_of
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "site"))

project = "patallreduce"
version = release = version_of("patallreduce")
extensions = [
    "myst_parser",
    "run",
    "sphinx.ext.autodoc",
    "sphinx.ext.doctest",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
]
include_patterns = [
    "docs/*.md",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "benchmarks/results/README.md",
]
exclude_patterns = [".*", "build", "out"]
root_doc = "docs/index"

html_theme = "furo"
html_title = "patallreduce"
html_static_path = ["site/static"]
html_css_files = ["site.css"]
html_extra_path = ["site/top"]
html_show_copyright = False
html_copy_source = False

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4
highlight_language = "text"
default_role = "code"  # of docstrings

autodoc_mock_imports = ["lightning", "transformers"]  # large, and named as bases only
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "undoc-members": False}
nitpick_ignore_regex = [
    # Of other projects: their sites cannot be asked while this one is built.
    (r"py:.*", r"(torch|dist|np|nn|numpy|collections|pathlib|os|types|typing|datetime)\..*"),
    # Not public, and named in signatures only.
    ("py:class", r"patallreduce\.(_core|communicator|hooks\.averager|tensorboard)\..*"),
]

doctest_global_setup = """
import torch
import torch.distributed as dist

import patallreduce as pat
"""
