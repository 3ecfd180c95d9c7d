"""From records to statements: `condition` (which runs belong together), `rows`, `stats`, `family`, `verdict`, `evidence`,
`gains` and `logged` (what a table and its picture share), `machines` (what runs were computed on).

`table` is what statements are made in: rows, columns and cells without any form; forms are the business of `tables`.
"""
