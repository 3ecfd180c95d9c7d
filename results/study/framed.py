"""USPS within the margin that MNIST has, for block u of study.sh: python framed.py DATA_ROOT NEW_ROOT.

The official USPS pictures fill their 16 × 16 frame; MNIST's digits fill the inner 20 of 28 pixels. Three pixels of black on
each side, 16 of 22, give USPS the same share of its frame. The other domains are linked as they are.
"""

import sys
from pathlib import Path

import numpy as np

MARGIN = 3  # 16 / (16 + 2·3) = .727; MNIST 20 / 28 = .714

old, new = (Path(folder).resolve() / "digits" for folder in sys.argv[1:])
new.mkdir(parents=True, exist_ok=True)
for file in old.glob("*.npz"):
    if file.name != "usps.npz":
        (new / file.name).unlink(missing_ok=True)
        (new / file.name).symlink_to(file)
        continue
    with np.load(file, allow_pickle=False) as stored:
        arrays = dict(stored)
    for name in ("x_train", "x_test"):
        arrays[name] = np.pad(arrays[name], ((0, 0), (MARGIN, MARGIN), (MARGIN, MARGIN)))
    np.savez(new / file.name, **arrays)
