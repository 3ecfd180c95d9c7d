"""Sets of images and the way from stored pixels to a network's input."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from benchmark.data.base import Dataset, Domain, ImageSet, Preprocess


def pixels(n: int = 6, side: int = 8) -> torch.Tensor:
    return torch.randint(0, 256, (n, 3, side, side), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_a_memory_mapped_set_gives_the_same_images_as_one_in_memory(tmp_path: Path) -> None:
    images, labels = pixels(), torch.arange(6)
    np.save(tmp_path / "x.npy", images.numpy())
    mapped = ImageSet(np.load(tmp_path / "x.npy", mmap_mode="r"), labels)
    index = torch.tensor([4, 0, 4])
    assert torch.equal(mapped.take(index), ImageSet(images, labels).take(index))
    assert torch.equal(mapped.take(index), images[[4, 0, 4]])


def test_a_batch_owns_its_memory(tmp_path: Path) -> None:
    images = pixels()
    np.save(tmp_path / "x.npy", images.numpy())
    for stored in (images.clone(), np.load(tmp_path / "x.npy", mmap_mode="r")):
        held = ImageSet(stored, torch.zeros(6, dtype=torch.long))
        held.take(torch.tensor([1])).zero_()
        assert torch.equal(held.take(torch.tensor([1])), images[1:2])


def test_subset_keeps_images_and_labels_together() -> None:
    part = ImageSet(pixels(), torch.arange(6)).subset(torch.tensor([5, 2]))
    assert part.labels.tolist() == [5, 2]
    assert torch.equal(part.take(torch.tensor([0])), pixels()[5:6])


def test_a_set_with_a_label_too_many_is_refused() -> None:
    with pytest.raises(ValueError, match="6 images but 7 labels"):
        ImageSet(pixels(), torch.arange(7))


def test_digits_come_out_between_minus_one_and_one() -> None:
    raw = torch.tensor([0, 51, 255], dtype=torch.uint8).view(3, 1, 1, 1).expand(3, 3, 2, 2)
    x = Preprocess().eval(raw, "cpu")
    assert x.dtype == torch.float32
    torch.testing.assert_close(x[:, 0, 0, 0], torch.tensor([-1.0, -0.6, 1.0]))


def test_every_channel_is_normalised_by_its_own_mean_and_deviation() -> None:
    x = Preprocess(mean=(0.0, 0.5, 1.0), std=(1.0, 0.5, 0.25)).eval(
        torch.full((1, 3, 2, 2), 255, dtype=torch.uint8), "cpu"
    )
    torch.testing.assert_close(x[0, :, 0, 0], torch.tensor([1.0, 1.0, 0.0]))


def test_without_augmentation_training_and_evaluation_see_the_same() -> None:
    raw = pixels()
    assert torch.equal(Preprocess().train(raw, "cpu", generator()), Preprocess().eval(raw, "cpu"))


def test_flip_gives_each_image_or_its_mirror_and_both_occur() -> None:
    raw = pixels(64)
    x = Preprocess(flip=True).train(raw, "cpu", generator())
    plain = Preprocess().eval(raw, "cpu")
    same = (x - plain).abs().amax((1, 2, 3)) < 1e-4
    mirrored = (x - plain.flip(-1)).abs().amax((1, 2, 3)) < 1e-4
    assert bool((same | mirrored).all())
    assert 16 < int(mirrored.sum()) < 48


def test_the_same_generator_state_gives_the_same_batch_and_another_seed_another() -> None:
    rule = Preprocess(size=8, flip=True, min_scale=0.5, shift=0.1)
    raw = pixels(side=10)
    assert torch.equal(rule.train(raw, "cpu", generator(3)), rule.train(raw, "cpu", generator(3)))
    assert not torch.equal(rule.train(raw, "cpu", generator(3)), rule.train(raw, "cpu", generator(4)))


def test_a_crop_shows_a_part_of_the_image_at_full_size() -> None:
    ramp = torch.arange(32, dtype=torch.uint8).mul(8).expand(50, 3, 32, 32)  # brightness tells the column
    x = Preprocess(min_scale=0.25).train(ramp, "cpu", generator())
    seen = (x[:, 0, 0, -1] - x[:, 0, 0, 0]) / (2 * 248 / 255)  # share of the columns between the borders
    assert x.shape == ramp.shape
    assert float(seen.min()) < 0.6
    assert float(seen.min()) > 0.45
    assert float(seen.max()) > 0.9


def test_a_shift_moves_the_image_and_repeats_its_border() -> None:
    raw = torch.zeros(40, 3, 16, 16, dtype=torch.uint8)
    raw[..., 8] = 255
    x = Preprocess(shift=0.25).train(raw, "cpu", generator())
    columns = x[:, 0, 0].argmax(-1)
    assert int(columns.min()) in (4, 5)
    assert int(columns.max()) in (11, 12)
    assert float(x.min()) == -1


def test_images_are_brought_to_the_size_of_the_network() -> None:
    assert Preprocess(size=12).eval(pixels(), "cpu").shape == (6, 3, 12, 12)
    assert Preprocess(size=12, flip=True).train(pixels(), "cpu", generator()).shape == (6, 3, 12, 12)


def test_activations_pass_unchanged() -> None:
    stored = torch.randn(4, 5, 7, 7).half()
    rule = Preprocess(size=64, flip=True, min_scale=0.5)
    for x in (rule.eval(stored, "cpu"), rule.train(stored, "cpu", generator())):
        assert torch.equal(x, stored.float())


def test_generated_domains_are_marked_with_a_star() -> None:
    part = ImageSet(pixels(), torch.arange(6))
    domains = {d.id: d for d in (Domain("mt", "MNIST", part, part), Domain("syn", "Type", part, part, generated=True))}
    dataset = Dataset(domains, "f", "note", Preprocess())
    assert [d.label for d in domains.values()] == ["mt", "syn*"]
    assert dataset.generated == ["syn"]
