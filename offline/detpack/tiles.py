# SPDX-License-Identifier: Apache-2.0
"""Tile sizes of products and convolutions, from their shapes alone: there is no GPU here to try them on.

The rule minimises the time of a simple model of an SM. A tile occupies its SM for the longest of four times: its matrix instructions, its
reads of shared memory, its loads from L2, its results on their way to memory. A tile alone also has a latency per step along K, a
beginning and an end. Tiles on the same SM hide each other's latencies. A partial round of tiles costs as much as a full one. The figures
are per SM and cycle, near those of an A100 and of an H200 without `wgmma`; only their ratios matter.
"""
import dataclasses

from .code import cdiv, power2

SMS = 132
FMA_PER_CYCLE = 1024   # f16 products with f32 sums, tensor cores
FMA_TURING = 512       # the same rate of GPUs before sm_80
L2_BYTES = 30
SHARED_BYTES = 128
MEMORY_BYTES = 20
STEP_LATENCY = 160     # latency of one step along K, cycles
START = 900            # beginning and end of a tile, cycles
SHARED_OF_SM = 160 << 10
MOST_SHARED = 96 << 10  # shared memory that a block may use, bytes: every GPU from sm_80 on has it
MOST_TURING = 48 << 10


@dataclasses.dataclass(frozen=True)
class Tile:
    m: int
    n: int
    k: int
    warps: int
    stages: int

    @property
    def shared(self):
        return (self.m + self.n) * self.k * 2 * self.stages


TILES = [Tile(*t) for t in (
    (128, 128, 32, 4, 4), (128, 128, 32, 8, 4), (128, 128, 64, 8, 3), (128, 256, 32, 8, 3), (256, 128, 32, 8, 3),
    (128, 64, 32, 4, 4), (64, 128, 32, 4, 4), (128, 32, 32, 4, 4), (32, 128, 32, 4, 4), (128, 64, 64, 4, 3), (64, 128, 64, 4, 3),
    (64, 64, 64, 4, 3), (64, 32, 64, 4, 4), (32, 64, 64, 4, 4), (32, 32, 64, 4, 4), (16, 64, 64, 4, 4), (64, 16, 64, 4, 4),
    (16, 32, 64, 2, 4), (32, 16, 64, 2, 4), (16, 16, 128, 2, 4), (16, 128, 64, 4, 4), (128, 16, 32, 4, 4), (16, 32, 128, 4, 4),
    (32, 32, 128, 4, 3))]


def from_shared(tile):
    """Bytes of shared memory that the warps read per element of K: each warp reads its rows and columns, in the best grid of warps."""
    best = 1 << 30
    for down in (1, 2, 4, 8):
        across = tile.warps // down
        if across and down * across == tile.warps and tile.m >= 16 * down and tile.n >= 8 * across:
            best = min(best, tile.warps * (tile.m // down + tile.n // across) * 2)
    return best if best < 1 << 30 else tile.warps * (tile.m + tile.n) * 2


def cycles(tile, m, n, k, count, rate, taps):
    tiles = cdiv(m, tile.m) * cdiv(n, tile.n) * count
    steps = cdiv(k, tile.k) * taps
    work = steps * tile.k * max(tile.m * tile.n / rate, (tile.m + tile.n) * 2 / L2_BYTES, from_shared(tile) / SHARED_BYTES)
    out = tile.m * tile.n * 2 / MEMORY_BYTES
    registers = min(255, tile.m * tile.n // (tile.warps * 32) + 72)
    beside = max(1, min(SHARED_OF_SM // max(1, tile.shared), 65536 // (tile.warps * 32 * registers), 16))
    latency = max(work, steps * STEP_LATENCY * (2 if tile.stages < 3 else 1)) + START + out
    return max(cdiv(tiles, SMS) * max(work, out), cdiv(tiles, SMS * beside) * latency)


def choose(m, n, k, count, plain=False, taps=1):
    """The tile for an m by n by k product, done `count` times; with taps, k is padded to whole steps for each. plain: for a GPU without
    asynchronous copies."""
    rate, most = (FMA_TURING, MOST_TURING) if plain else (FMA_PER_CYCLE, MOST_SHARED)
    most_k = max(16, power2(k))
    tiles = [dataclasses.replace(t, stages=1) for t in TILES] if plain else TILES
    tiles = [dataclasses.replace(t, k=min(t.k, most_k)) for t in tiles if t.shared <= most]
    return min(tiles, key=lambda t: (cycles(t, m, n, k, count, rate, taps), -t.m * t.n))
