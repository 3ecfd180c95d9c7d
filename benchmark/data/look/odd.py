"""What is odd about a folder of pictures, in sentences: what is left out, what will be in the way, what may mislead."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmark.data.look.survey import Seen, Survey

FEW = 10  # pictures of a class in a domain, below which its accuracy says little
SMALL = 32  # pixels: shorter sides below it


def oddities(found: Survey, classes: Sequence[str]) -> list[str]:
    """Everything that a person should know before a run; `classes` are those that the suite takes."""
    return [
        *_tables(found),
        *_missing(found, classes),
        *_broken(found),
        *_copies(found),
        *_shares(found, classes),
        *_sizes(found),
        *_elsewhere(found),
    ]


def some(names: Sequence[str], most: int = 4) -> str:
    """The first few of many names."""
    rest = len(names) - most
    return ", ".join(names[:most]) + (f" and {rest:,} more" if rest > 0 else "")


def number(n: int, one: str, many: str = "") -> str:
    """`1 picture`, `2,000 pictures`."""
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def _tables(found: Survey) -> Iterator[str]:
    if found.gone:
        noun = number(len(found.gone), "file that is", "files that are")
        yield f"The table names {noun} not there: {some(found.gone)}. Left out."
    apart = [s.entry.name for s in found.pictures if not (s.entry.part or s.fault)]
    if found.lists and found.form != "tree" and apart:
        noun = number(len(apart), "picture is", "pictures are")
        yield f"{noun} neither train nor test by the column split, so neither trained on nor scored: {some(apart)}."


def _missing(found: Survey, classes: Sequence[str]) -> Iterator[str]:
    """Classes that some domain lacks; and names that differ by their case only."""
    counts = found.counts()
    every = {kind for own in counts.values() for kind in own}
    lacking = {kind: [d for d in counts if not counts[d][kind]] for kind in sorted(every - {*classes})}
    for domain in counts:
        absent = [kind for kind, where in lacking.items() if domain in where]
        if absent:
            noun = number(len(absent), "class", "classes")
            yield f"{domain} has no picture of {noun}: {some(absent)}. Left out: only what every domain has is compared."
    spelled: dict[str, set[str]] = defaultdict(set)
    for kind in every:
        spelled[kind.casefold().replace("-", "_").replace(" ", "_")].add(kind)
    for names in spelled.values():
        if len(names) > 1:
            yield f"{' and '.join(sorted(names))} are two classes by their names: are they one?"


def _broken(found: Survey) -> Iterator[str]:
    by_fault: dict[str, list[str]] = defaultdict(list)
    for s in found.pictures:
        if s.fault:
            by_fault[s.fault].append(s.entry.name)
    for fault, names in by_fault.items():
        noun = number(len(names), "file is no picture", "files are no pictures")
        yield f"{noun} although named so, {fault}: {some(names)}. Left out."


def _copies(found: Survey) -> Iterator[str]:
    """Copies, by what they spoil."""

    def differ(same: Sequence[Seen], what: str) -> bool:
        return len({s.entry.domain if what == "domain" else s.kind for s in same}) > 1

    def example(sets: Sequence[Sequence[Seen]]) -> str:
        return f"{sets[0][0].entry.name} = {sets[0][-1].entry.name}"

    across = [same for same in found.copies if differ(same, "domain")]
    kinds = [same for same in found.copies if differ(same, "class") and not differ(same, "domain")]
    within = sum(len(same) - 1 for same in found.copies if not differ(same, "domain") and not differ(same, "class"))
    if across:
        noun = number(len(across), "picture lies", "pictures lie")
        yield f"{noun} in two domains, byte for byte: the target is then among its sources ({example(across)})."
    if kinds:
        noun = number(len(kinds), "picture lies", "pictures lie")
        yield f"{noun} in two classes of one domain: one label is wrong ({example(kinds)})."
    if within:
        plain = [same for same in found.copies if not differ(same, "domain") and not differ(same, "class")]
        yield f"{number(within, 'duplicate')} within a class and domain: they count more than once ({example(plain)})."


def _shares(found: Survey, classes: Sequence[str]) -> Iterator[str]:
    counts = found.counts()
    few: dict[str, list[str]] = defaultdict(list)  # by class
    for domain, own in counts.items():
        total = sum(own[c] for c in classes)
        kind, most = max(((c, own[c]) for c in classes), key=lambda pair: pair[1])
        if len(classes) > 2 and 2 * most >= total:
            yield f"{kind} is {100 * most / total:.0f} % of {domain}: who always answers {kind} is right that often."
        for c in classes:
            if own[c] < FEW:
                few[c].append(f"{domain}/{c} ({own[c]})")
    if few:
        noun, where = number(len(few), "class has", "classes have"), [place for own in few.values() for place in own]
        yield f"{noun} fewer than {FEW} pictures in a domain, so accuracies there say little: {some(where)}."
    totals = {d: sum(own[c] for c in classes) for d, own in counts.items()}
    small, large = min(totals, key=lambda d: totals[d]), max(totals, key=lambda d: totals[d])
    if totals[large] >= 20 * totals[small]:
        yield f"{large} has {totals[large]:,} pictures and {small} {totals[small]:,}."
    if len(counts) == 2:
        yield "With two domains there is one source a target: the multi-source methods have nothing to combine."


def _sizes(found: Survey) -> Iterator[str]:
    small = [s.entry.name for s in found.pictures if not s.fault and s.side < SMALL]
    if small:
        noun = number(len(small), "picture is", "pictures are")
        yield f"{noun} smaller than {SMALL} pixels and will be enlarged: {some(small)}."


def _elsewhere(found: Survey) -> Iterator[str]:
    if found.other:
        kinds = ", ".join(f"{n:,} {suffix}" for suffix, n in Counter(found.other).most_common(5))
        yield f"Files of other kinds lie among the pictures and are not read: {kinds}."
    for folder, n in found.loose.items():
        if n:
            yield f"{number(n, 'picture lies', 'pictures lie')} in {Path(folder).name} itself, in no class, and are not read."
