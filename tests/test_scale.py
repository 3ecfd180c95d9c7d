"""Ten thousand records of real size: the table and the report stay quick, and cost grows with the number of runs."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchmark import records, report, tables
from tests.synthetic import write_study

ALONE = ["source-only", "dan", "dann", "coral", "adda", "mcd", "jan"]
TOGETHER = ["source-only", "source-only:bn", "mdan", "mdda", "dctn", "m3sda", "tsvdnet", "tsvdnet:code"]


def study(root: Path, seeds: int) -> int:
    """215 runs a seed: 8 multi-source and 7 combined rows on 5 targets, 7 rows from each of 4 single sources."""
    write_study(root, TOGETHER, seeds=range(seeds))
    write_study(root, ALONE, standard="combined", seeds=range(seeds))
    write_study(root, ALONE, standard="single-best", seeds=range(seeds))
    return 215 * seeds


@pytest.mark.soak
def test_ten_thousand_records_stay_quick_and_small(tmp_path: Path):
    """Times are CPU seconds of this process: what they are on an idle machine, whoever else uses this one."""
    results = tmp_path / "runs"
    assert study(results, 47) == 10_105
    records.load(results)  # the index is warm, as after the first look
    command = [sys.executable, "-c", TABLE, str(results)]
    spent = float(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[-1])
    print(f"table: {spent:.1f} CPU s with all imports")
    assert spent <= 5
    start = time.process_time()
    page = report.write(results, tmp_path / "report.html")
    spent, size = time.process_time() - start, page.stat().st_size / 1e6
    print(f"report: {spent:.1f} CPU s, {size:.1f} MB")
    assert spent <= 60
    assert size <= 50


TABLE = """
import sys, time
from benchmark.__main__ import main
assert main(["table", "--suite", "digits", "--results", sys.argv[1]]) == 0
print(time.process_time())
"""


@pytest.mark.soak
def test_cost_grows_no_faster_than_the_number_of_records(tmp_path: Path):
    spent = {}
    for seeds in (3, 12):
        root = tmp_path / str(seeds)
        count = study(root, seeds)
        frame = records.load(root)
        tables.comparison(frame, "digits")
        start = time.process_time()
        for _ in range(3):
            tables.comparison(frame, "digits")
        spent[count] = (time.process_time() - start) / 3
    print({count: f"{seconds:.3f} s" for count, seconds in spent.items()})
    assert spent[2580] <= 1.5 * 4 * spent[645]
