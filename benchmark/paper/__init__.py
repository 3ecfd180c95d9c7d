"""A paper as data, one folder a paper (`tsvdnet/`): its tables as printed, its claims, which of our rows answer which of its
rows, what its figures show, the training log that its authors released. `folders` finds a paper, `printed`, `claims`, `answers`
and `log` read it, `wanted` plans what a table or figure of it needs run.

`rivals/` is no paper: numbers that others printed for systems the paper left out, each with its origin.
Where a number or a sentence stands in the paper is beside it in the files. Another paper is another folder with the same files.
"""
