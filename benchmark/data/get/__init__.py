"""From the internet or the user's disk to the prepared form: `sources`, `links`, `fetch`, `prepare`, `check`.

Nothing here is needed by a run: a compute node reads what was prepared before.
"""
