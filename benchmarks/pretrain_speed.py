"""Speed and peak memory of pre-training steps, and block against gathered attention.

    python benchmarks/pretrain_speed.py [LOCATIONS] [--maskings 8] [--steps 3]

One epoch is one optimiser step over the maskings. On a busy machine read the CPU
seconds: divided by the number of cores they are the wall seconds of free cores.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from clusterfirst.networks.neighbours import nearest
from clusterfirst.networks.trainable.embed import (
    SETTINGS,
    Autoencoder,
    city_graph,
    draw_masks,
    masked_losses,
)
from clusterfirst.problem.sampling import sample_city


def least(work: Callable[[], object], times: int) -> tuple[float, float]:
    """Smallest CPU and wall seconds of several runs, after one to warm up."""
    work()
    taken = []
    for _ in range(times):
        cpu, wall = time.process_time(), time.perf_counter()
        work()
        taken.append((time.process_time() - cpu, time.perf_counter() - wall))
    return min(cpu for cpu, _ in taken), min(wall for _, wall in taken)


def gathered(qkv: Tensor, lists: Tensor, heads: int) -> Tensor:
    """The plain way: each location fetches the keys and values of its own list."""
    m, batch, width = qkv.shape[0], qkv.shape[1], qkv.shape[2] // 3
    query, pair = qkv[..., :width], qkv[..., width:]
    near = pair.reshape(m, -1).index_select(0, lists.reshape(-1))
    near = near.view(m, lists.shape[1], batch, 2, heads, width // heads)
    query = query.view(m, batch, heads, width // heads)
    scores = torch.einsum("mbhd,mkbhd->mbhk", query, near[:, :, :, 0])
    weights = torch.softmax(scores * (width // heads) ** -0.5, dim=-1)
    mixed = torch.einsum("mbhk,mkbhd->mbhd", weights, near[:, :, :, 1])
    return mixed.reshape(m, batch, width)


def main() -> None:
    """Print one line per measurement."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("locations", type=int, nargs="?", default=3000)
    parser.add_argument("--maskings", type=int, default=8)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--attention", action="store_true")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    settings = replace(SETTINGS["paper"], maskings=args.maskings)
    city = sample_city(args.locations, seed=1)
    began = time.perf_counter()
    graph = city_graph(city, settings)
    print(f"graph of {args.locations} locations: {time.perf_counter() - began:.2f} s")
    model = Autoencoder(graph, settings)
    adam = torch.optim.Adam(model.parameters(), lr=settings.rate)

    def step() -> None:
        adam.zero_grad()
        masked_losses(model, draw_masks(graph, settings, 0), learn=True)
        adam.step()

    cpu, wall = least(step, args.steps)
    print(f"epoch of {args.maskings} maskings: {cpu:.2f} CPU s, {wall:.2f} wall s")
    print(f"two free cores: {2 / cpu:.2f} epoch/s")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"peak memory: {peak:.2f} GB")
    if args.attention:
        lists = torch.from_numpy(
            nearest(np.asarray(city.coords), settings.k_attn, include_self=True)
        )
        shape = (len(graph.blocks.order), args.maskings, 3 * settings.width)
        qkv = torch.randn(shape, requires_grad=True)
        blocks, _ = least(
            lambda: graph.blocks.attend(qkv, settings.heads).sum().backward(), 2
        )
        plain, _ = least(
            lambda: gathered(qkv[: graph.size], lists, settings.heads).sum().backward(),
            2,
        )
        print(f"attention layer, CPU s: blocks {blocks:.3f}, gathered {plain:.3f}")
        print(f"ratio {plain / blocks:.1f}")


if __name__ == "__main__":
    main()
