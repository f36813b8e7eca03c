"""The documentation site: its pages that are made from the code, so that they cannot fall behind it.

``make docs`` builds it. The other pages are in ``docs/``; ``mkdocs.yml`` says in which order they come.
"""
