"""Seeds of streams differ from each other and from the cells' own."""

from stcl.stages.seeds import stream_seed

EXPECTED = 0xFBC78389359274E1  # the first 16 digits


def test_every_stream_of_every_cell_has_its_own_seed():
    streams = ("batches", "directions", "bank", "inputs")
    seeds = [stream_seed(seed, stream) for seed in range(100) for stream in streams]
    assert len({*seeds, *range(100)}) == 500
    assert all(0 <= seed < 2**63 for seed in seeds)


def test_seeds_are_the_same_everywhere():
    """By SHA-256 of the words, computed here by another program: `printf 'batches of seed 0' | sha256sum`."""
    assert stream_seed(0, "batches") == EXPECTED >> 1
