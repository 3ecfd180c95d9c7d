"""The example of docs/extending.md is a method that works, from a file outside the repository, with one option."""

from __future__ import annotations

import re
from pathlib import Path

from benchmark import records
from benchmark.__main__ import main
from tests.tiny import ARGUMENTS

ROOT = Path(__file__).parent.parent


def test_the_example_joins_the_comparison_with_one_option(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    file = tmp_path / "my_method.py"
    file.write_text(code, encoding="utf-8")
    methods = f"source-only:bn,{file}:MyMethod,{file}:MyMethod@strong"
    arguments = [
        "run",
        "--suite",
        "digits",
        "--methods",
        methods,
        "--targets",
        "mm",
        "--results",
        str(tmp_path / "runs"),
    ]
    assert main([*arguments, "--workers", "1", *ARGUMENTS]) == 0
    frame = records.load(tmp_path / "runs")
    assert sorted(frame.title) == ["My Method", "My Method", "Source-Only"]
    assert set(frame.status) == {"done"}
    table = (tmp_path / "runs" / "tables" / "digits-mini-comparison.md").read_text(encoding="utf-8")
    assert "My Method" in table
