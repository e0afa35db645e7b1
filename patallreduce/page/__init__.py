"""A run as one HTML page that needs no network: what counts, then pictures to look into.

plotly is needed for its JavaScript, and imported only when a page is written:
`pip install patallreduce[report]`.
"""

from patallreduce.page.write import write_page

__all__ = ["write_page"]
