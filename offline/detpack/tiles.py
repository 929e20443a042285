# SPDX-License-Identifier: Apache-2.0
"""Tile sizes of products and convolutions, from their shapes alone: there is no GPU here to try them on.

The rule takes the smallest time of a simple model of an SM: a tile takes as long as its matrix instructions or its loads from L2, whichever is
more; every step along K costs at least a latency, which tiles on the same SM hide from each other; and the last wave of tiles is as long as a full one.
The figures are per SM and cycle, of the order of an A100's; what matters is their ratios.
"""
import dataclasses

from .code import cdiv, power2

SMS = 108
FMA_PER_CYCLE = 1024   # f16 products with f32 sums, tensor cores
FMA_WITHOUT = 128      # without tensor cores
L2_BYTES_PER_CYCLE = 48
STEP_LATENCY = 110     # cycles of one step along K that nothing hides
START = 900            # prologue and epilogue of a tile


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


TILES = [Tile(128, 128, 32, 8, 4), Tile(128, 256, 32, 8, 3), Tile(256, 128, 32, 8, 3), Tile(128, 64, 32, 4, 4), Tile(64, 128, 32, 4, 4), Tile(128, 32, 32, 4, 4), Tile(32, 128, 32, 4, 4),
         Tile(64, 64, 64, 4, 3), Tile(64, 32, 64, 4, 4), Tile(32, 64, 64, 4, 4), Tile(32, 32, 64, 4, 4), Tile(16, 64, 64, 4, 4), Tile(64, 16, 64, 4, 4),
         Tile(16, 32, 64, 2, 4), Tile(32, 16, 64, 2, 4), Tile(16, 16, 128, 2, 4), Tile(16, 128, 64, 4, 4), Tile(128, 16, 32, 4, 4)]
PLAIN_TILES = [Tile(64, 64, 16, 8, 1), Tile(32, 64, 16, 4, 1), Tile(64, 32, 16, 4, 1), Tile(32, 32, 16, 4, 1), Tile(16, 32, 16, 4, 1), Tile(32, 16, 16, 4, 1),
               Tile(16, 16, 16, 4, 1)]


def cycles(tile, m, n, k, count, rate):
    tiles = cdiv(m, tile.m) * cdiv(n, tile.n) * count
    steps = cdiv(k, tile.k)
    work = steps * tile.k * max(tile.m * tile.n / rate, (tile.m + tile.n) * 2 / L2_BYTES_PER_CYCLE)
    if tile.warps * tile.m * tile.n < 4 * 64 * 64 and rate == FMA_PER_CYCLE:
        work *= 1.15  # small tiles keep fewer matrix instructions in flight
    beside = max(1, min(100_000 // max(1, tile.shared), 64 // tile.warps, 65_536 // (tile.warps * 32 * 128)))
    waves = cdiv(tiles, SMS * beside)
    full = cdiv(tiles, SMS) * work
    return max(full, waves * steps * STEP_LATENCY * (2 if tile.stages < 3 else 1)) + waves * START


def choose(m, n, k, count, plain=False):
    """The tile for an m by n by k product, done `count` times."""
    rate = FMA_WITHOUT if plain else FMA_PER_CYCLE
    most_k = max(16, power2(k))
    tiles = [Tile(t.m, t.n, min(t.k, most_k), t.warps, t.stages) for t in (PLAIN_TILES if plain else TILES)]
    return min(tiles, key=lambda t: (cycles(t, m, n, k, count, rate), -t.m * t.n))
