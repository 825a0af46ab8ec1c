"""Every analysis of the registry under single-file edits, and the editor's diagnostics on save.

`projects` says which real tree each analysis reads, `edits` makes one-line and one-function changes
that still parse, `measure` times them, `editor` speaks to a `deltafix lsp` process over its pipes;
`judged` holds those of Python against mypy (`checker`) and runs (`traced`) of `scripts`.
An analysis that joins the registry is measured without a word here, unless its files are of a
language that has no project yet.
"""
