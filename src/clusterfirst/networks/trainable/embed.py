"""Spatial masked autoencoder: a fixed city becomes a table Psi (the paper, App. B).

Every location has a learnable vector. Patches of neighbouring locations are hidden
behind one shared [MASK] vector, and a Transformer whose attention sees nothing but
the k nearest neighbours must tell, for each hidden location, how far it is from
every location and which are its neighbours. No coordinate and no positional encoding
enters: coordinates give the neighbour lists and the targets, both unchanged by
rotation, reflection and shift, and (distances are divided by the city's mean
distance) by scaling. The rows Psi[i] are what the heads read, of width d/2; the
autoencoder is thrown away afterwards.

Where the paper is silent: the encoder is 128 wide and Psi 64, so a linear map stands
between the last layer and Psi, before the heads; layers normalise first and there is
no dropout; the heads' inner width is the encoder's; the depot is hidden like any
other location and is among the targets; the two losses weigh the same; the final
table is read with nothing hidden.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from clusterfirst.networks.neighbours import nearest
from clusterfirst.problem.city import City
from clusterfirst.problem.errors import InputError, Problem, require_rules
from clusterfirst.problem.instance import FloatArray, IntArray
from clusterfirst.problem.sampling import generator

BoolArray = npt.NDArray[np.bool_]

BLOCK = 64  # locations whose attention is computed together; measured, see log/
MAX_LOCATIONS = 30_000  # the targets are a full float32 table: 3.6 GB there
# What goes through at once bounds the memory, and small is fast: arrays above 32 MB
# are fetched from and given back to the system each time (measured 1.5x, log/).
TOKENS_AT_ONCE = 6_000  # locations x maskings in the encoder
ENTRIES_AT_ONCE = 2**22  # hidden locations x locations in the heads


@dataclass(frozen=True)
class EmbedSettings:
    """The autoencoder and its training; `SETTINGS` has the named ones."""

    layers: int = 6
    heads: int = 4
    width: int = 128
    feedforward: int = 512
    psi_width: int = 64  # d/2: the other half of a node's input is its demand
    k_attn: int = 20
    k_target: int = 40
    hidden_share: tuple[float, float] = (0.15, 0.30)
    patch: tuple[int, int] = (5, 10)  # neighbours hidden with a patch's centre
    maskings: int = 8  # independent maskings in one optimiser step = one epoch
    epochs: int = 10_000
    rate: float = 1e-3
    cooldown: int = 10_000  # the rate falls linearly to 0 over the last ... epochs
    patience: int = 0  # epochs without progress before cooling down; 0 = never
    seed: int = 0

    def __post_init__(self) -> None:
        low, high = self.hidden_share
        rules = {
            "heads": (self.width % self.heads == 0, "they must divide the width"),
            "hidden_share": (0 < low <= high < 1, "0 < low <= high < 1 is needed"),
            "patch": (0 <= self.patch[0] <= self.patch[1], "low <= high is needed"),
            "k_target": (
                self.k_target > self.k_attn,
                "it must exceed k_attn, or the targets are in plain sight (App. B)",
            ),
            "epochs": (min(self.epochs, self.maskings) > 0, "must be at least 1"),
            "seed": (self.seed >= 0, "must be at least 0"),
            "cooldown": (0 < self.cooldown <= self.epochs, "1 to epochs is needed"),
        }
        require_rules(self, rules)


SETTINGS = {
    # As printed: 8 maskings a step, 10,000 steps, linear decay over all of them.
    "paper": EmbedSettings(),
    # Ours, for two cores: one masking a step (equal seconds give an equal or better
    # table, log/), the full rate until the held-out error is flat, then the same
    # linear decay.
    "default": EmbedSettings(maskings=1, epochs=1500, cooldown=750, patience=300),
}


# --- what the city gives: neighbour lists and targets ---------------------------


@dataclass(frozen=True, eq=False)
class Graph:
    """What the autoencoder may know of a city of m = |X| + 1 locations."""

    blocks: Blocks
    distances: Tensor  # (m, m) in mean distances; targets of the distance head
    scale: float  # the city's mean distance, in its own unit
    linked: Tensor  # (m, width) k_target neighbours, padded with m
    patches: IntArray  # (m, most) nearest first: what is hidden with a centre

    @property
    def size(self) -> int:
        """Number of locations, depot included."""
        return len(self.distances)


def city_graph(city: City, settings: EmbedSettings) -> Graph:
    """Return neighbour lists and targets of a city."""
    m = len(city.coords)
    if not 2 <= m <= MAX_LOCATIONS + 1:
        rule = f"pre-training needs 1 to {MAX_LOCATIONS} locations beside the depot"
        raise InputError(Problem("E401", "city", f"{m - 1} locations", rule))
    whole = city.day(np.arange(1, m), np.zeros(m - 1), capacity=1)
    distances = np.empty((m, m), dtype=np.float32)
    for start in range(0, m, 1024):
        rows = np.arange(start, min(start + 1024, m))
        distances[rows] = whole.lengths(rows[:, None], np.arange(m))
    scale = float(distances.mean(dtype=np.float64)) or 1.0
    distances /= scale
    to_depot = distances[:, 0]
    lists = nearest(whole.plane, settings.k_attn, keys=(to_depot,), include_self=True)
    linked = nearest(whole.plane, settings.k_target, keys=(to_depot,))
    near = nearest(whole.plane, settings.patch[1], keys=(to_depot,))
    return Graph(
        blocks=Blocks.of(whole.plane, lists),
        distances=torch.from_numpy(distances),
        scale=scale,
        linked=torch.from_numpy(np.where(linked < 0, m, linked)),
        patches=_by_distance(near, distances)[:, : settings.patch[1]],
    )


def _by_distance(lists: IntArray, distances: npt.NDArray[np.float32]) -> IntArray:
    """Each list nearest first; at equal distances by row, in every frame alike."""
    apart = np.take_along_axis(distances, np.maximum(lists, 0), axis=1).round(6)
    apart[lists < 0] = np.inf
    return np.take_along_axis(lists, np.lexsort((lists, apart), axis=1), axis=1)


def draw_masks(graph: Graph, settings: EmbedSettings, index: int) -> Tensor:
    """Return the (maskings, m) hidden locations of step `index`.

    A share is drawn for each masking; patches (a random centre and 5 to 10 of its
    nearest) are added until it is reached, the last one cut to fit.
    """
    rng = generator(settings.seed, index)
    masks = np.zeros((settings.maskings, graph.size), dtype=np.bool_)
    for mask in masks:
        wanted = max(1, round(rng.uniform(*settings.hidden_share) * graph.size))
        while (missing := wanted - int(mask.sum())) > 0:
            centre = rng.integers(graph.size)
            reach = rng.integers(*settings.patch, endpoint=True)
            patch = np.append(centre, graph.patches[centre, :reach])
            fresh = patch[(patch >= 0) & ~mask[patch]]
            mask[fresh[:missing]] = True
    return torch.from_numpy(masks)


# --- attention among neighbours at linear cost -----------------------------------


@dataclass(frozen=True, eq=False)
class Blocks:
    """Neighbour lists as small dense attention problems, exact and linear in m.

    Locations near each other have nearly the same neighbours, so a block of them
    fetches the union of its lists once and masks the rest out. For k = 20 this
    moves a seventh of the memory of a gather per location. The blocks are a layout
    only: another choice changes results in the last bits.
    """

    order: Tensor  # (blocks * BLOCK,) location at each place; the last one repeats
    place: Tensor  # (m,) place of each location
    keys: Tensor  # (blocks, most) places that a block attends to, padded
    bias: Tensor  # (blocks, 1, BLOCK, most) 0 where allowed, -inf elsewhere

    @classmethod
    def of(cls, points: FloatArray, lists: IntArray) -> Blocks:
        """Lay out lists (m, width), padded with -1, the location itself included."""
        parts = _split(points, np.arange(len(points)))
        order = np.concatenate(parts)
        order = np.pad(order, (0, -len(order) % BLOCK), mode="edge")
        place = np.empty(len(points), dtype=np.int64)
        place[order[::-1]] = np.arange(len(order))[::-1]  # the first place wins
        blocks = order.reshape(-1, BLOCK)
        unions = [np.unique(lists[rows][lists[rows] >= 0]) for rows in blocks]
        most = max(len(union) for union in unions)
        keys = np.zeros((len(blocks), most), dtype=np.int64)
        bias = np.full((len(blocks), 1, BLOCK, most), -np.inf, dtype=np.float32)
        for rows, union, key, allowed in zip(blocks, unions, keys, bias, strict=True):
            key[: len(union)] = place[union]
            held = lists[rows] >= 0
            query = np.nonzero(held)[0]
            allowed[0, query, np.searchsorted(union, lists[rows][held])] = 0.0
        tensors = (torch.from_numpy(array) for array in (order, place, keys, bias))
        return cls(*tensors)

    def attend(self, qkv: Tensor, heads: int) -> Tensor:
        """Attention of (places, batch, 3 width) in block order; all heads fused."""
        batch, width = qkv.shape[1], qkv.shape[2] // 3
        count, most = self.keys.shape
        query, pair = qkv[..., :width], qkv[..., width:]
        # One row per place holds every masking: long rows make the fetch, and the
        # sum in its backward pass, run at memory speed.
        fetched = pair.reshape(len(qkv), -1).index_select(0, self.keys.reshape(-1))
        fetched = fetched.view(count, most, batch, 2, heads, width // heads)
        key, value = (part.flatten(2, 3).transpose(1, 2) for part in fetched.unbind(3))
        query = query.reshape(count, BLOCK, batch * heads, -1).transpose(1, 2)
        mixed = F.scaled_dot_product_attention(query, key, value, attn_mask=self.bias)
        return mixed.transpose(1, 2).reshape(len(qkv), batch, width)


def _split(points: FloatArray, rows: IntArray) -> list[IntArray]:
    """Halve along the longer side into parts of BLOCK rows (the last one shorter)."""
    if len(rows) <= BLOCK:
        return [rows]
    axis = int(np.ptp(points[rows], axis=0).argmax())
    rows = rows[np.argsort(points[rows, axis], kind="stable")]
    middle = -(-len(rows) // BLOCK) // 2 * BLOCK
    return _split(points, rows[:middle]) + _split(points, rows[middle:])


# --- the network ------------------------------------------------------------------


class Layer(nn.Module):
    """One encoder layer: attention among neighbours, then a feed-forward net.

    Not that of layers.py: the lists never change, so attention runs block by block
    (measured, log/), and the last layer is computed only where it is read.
    """

    def __init__(self, settings: EmbedSettings) -> None:
        super().__init__()
        width = settings.width
        self.heads = settings.heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.before = nn.LayerNorm(width)
        self.after = nn.LayerNorm(width)
        self.up = nn.Linear(width, settings.feedforward)
        self.down = nn.Linear(settings.feedforward, width)

    def forward(self, x: Tensor, blocks: Blocks, kept: Tensor | None) -> Tensor:
        """Map (places, batch, width) to the same, or to its `kept` rows only."""
        mixed = blocks.attend(self.qkv(self.before(x)), self.heads)
        if kept is not None:
            x, mixed = x.flatten(0, 1)[kept], mixed.flatten(0, 1)[kept]
        x = x + self.out(mixed)
        fed: Tensor = self.down(F.relu(self.up(self.after(x))))
        return x + fed


class Autoencoder(nn.Module):
    """The spatial masked autoencoder of one city."""

    def __init__(self, graph: Graph, settings: EmbedSettings) -> None:
        super().__init__()
        self.settings, self.graph = settings, graph
        width, psi, m = settings.width, settings.psi_width, graph.size
        self.table = nn.Parameter(torch.randn(m, width))
        self.hidden = nn.Parameter(torch.randn(width))  # [MASK]
        self.layers = nn.ModuleList(Layer(settings) for _ in range(settings.layers))
        self.norm = nn.LayerNorm(width)
        self.psi = nn.Linear(width, psi)
        self.distance = nn.Sequential(
            nn.Linear(psi, width), nn.ReLU(), nn.Linear(width, m)
        )
        self.linked = nn.Sequential(
            nn.Linear(psi, width), nn.ReLU(), nn.Linear(width, m)
        )

    def encode(self, masks: Tensor, wanted: Tensor) -> Tensor:
        """Psi of the `wanted` (batch, m) locations, row by row in nonzero order."""
        blocks, batch = self.graph.blocks, len(masks)
        x = self.table[blocks.order][:, None]
        masked = masks.T[blocks.order][:, :, None]
        x = torch.where(masked, self.hidden, x)
        which, location = wanted.nonzero(as_tuple=True)
        kept = blocks.place[location] * batch + which
        for layer in self.layers[:-1]:
            x = layer(x, blocks, None)
            if x.requires_grad:  # torch looks for Ctrl-C only where Python runs
                x.register_hook(lambda gradient: None)
        # The last layer is needed where it is read only.
        x = self.layers[-1](x, blocks, kept)
        psi: Tensor = self.psi(self.norm(x))
        return psi

    def errors(self, psi: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Sums over `rows` of mean L1 and mean cross-entropy against all locations."""
        away = F.l1_loss(
            self.distance(psi), self.graph.distances[rows], reduction="sum"
        )
        logits: Tensor = self.linked(psi)
        # sum BCE(z, t) = sum softplus(z) - sum z over the links: no dense target.
        padded = F.pad(logits, (0, 1))
        on_links = padded.gather(1, self.graph.linked[rows])
        apart = F.softplus(logits).sum() - on_links.sum()
        return away / self.graph.size, apart / self.graph.size

    def table_psi(self) -> Tensor:
        """Psi of every location with nothing hidden, (m, psi_width)."""
        seen = torch.zeros(1, self.graph.size, dtype=torch.bool)
        with torch.no_grad():
            return self.encode(seen, ~seen)


@dataclass(frozen=True)
class Losses:
    """Means over hidden locations: L1 in mean distances, and cross-entropy."""

    distance: float
    linked: float


def masked_losses(model: Autoencoder, masks: Tensor, *, learn: bool) -> Losses:
    """Reconstruction losses of the hidden locations; `learn` adds their gradients.

    Maskings, and the hidden locations of each, go through in turns so that memory
    does not grow with their number; the gradients add up to those of all at once.
    """
    hidden, m = int(masks.sum()), model.graph.size
    totals = torch.zeros(2)
    maskings, rows_at_once = max(1, TOKENS_AT_ONCE // m), max(1, ENTRIES_AT_ONCE // m)
    with torch.set_grad_enabled(learn):
        for first in range(0, len(masks), maskings):
            part = masks[first : first + maskings]
            psi, rows = model.encode(part, part), part.nonzero(as_tuple=True)[1]
            read = psi.detach().requires_grad_(learn)
            for start in range(0, len(rows), rows_at_once):
                turn = slice(start, start + rows_at_once)
                away, apart = model.errors(read[turn], rows[turn])
                if learn:
                    torch.autograd.backward((away + apart) / hidden)
                totals += torch.stack([away.detach(), apart.detach()]) / hidden
            if learn:
                torch.autograd.backward(psi, read.grad)
    return Losses(*totals.tolist())


def table_errors(model: Autoencoder, psi: Tensor) -> Tensor:
    """Mean L1 distance error (m,) of each row of a table, in mean distances."""
    rows_at_once = max(1, ENTRIES_AT_ONCE // len(psi))
    errors = torch.empty(len(psi))
    with torch.no_grad():
        for start in range(0, len(psi), rows_at_once):
            turn = slice(start, start + rows_at_once)
            off = model.distance(psi[turn]) - model.graph.distances[turn]
            errors[turn] = off.abs().mean(dim=1)
    return errors
