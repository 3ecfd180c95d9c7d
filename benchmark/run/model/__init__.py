"""Models that stay: how one is kept while its run trains, its file, and using it (`load_model`, `predict`).

`kept` is the file and refuses what is none; `keeping` is the run's side; `loading` makes the network again, `pictures`
reads what it is to look at, `predicting` makes the table, `size` says beforehand what it takes on the disk.
"""

from __future__ import annotations
