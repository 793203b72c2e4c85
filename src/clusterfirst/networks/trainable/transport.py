"""Entropic optimal transport of customers to vehicles (the paper, Section 2.3).

K vehicles of capacity 1 receive customers of mass q_i = d_i / Q; a slack customer of
mass K - sum q fills them up. With a plan that fits the customers exactly,
Y_ij = Pi_ij / q_i = softmax_j((g_j - cost_ij) / eps) whatever q_i is, so the layer
only looks for the prices g of the vehicles, in the log domain, and ends on the
customers. Padding, zero slack and customers without demand need no special case:
they weigh nothing.

Two losses: cross-entropy on Y with the iterations unrolled (the paper), and
`plan_divergence`, whose gradient (P - Pi) / eps needs no unrolling. The cost may be
taken per customer instead of per unit of mass (`cost_per_customer`), which makes the
transport the linear relaxation of the assignment problem that is decoded.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

CONVERGED = 1e-3  # of a vehicle: what counts as converged without a tolerance
ABSORB_EVERY = 50  # iterations between two steps in the log domain
FACTOR = 1e8  # prices may change by this factor in between
NEGLIGIBLE = 1e-30  # shares of a customer below this are 0 in between
SHARE_FLOOR = 1e-6  # of a vehicle: costs per unit of mass stay finite


@dataclass(frozen=True, eq=False)
class TransportProblem:
    """A batch of padded problems.

    Parameters
    ----------
    cost
        (B, n, K), any finite values, also where padded.
    share
        (B, n) customers' masses d_i / Q; 0 where padded.
    slack
        (B,) free capacity K - sum d / Q, at least 0, from exact integers: as float
        sums it comes out negative in one of a hundred instances.
    vehicles, customers
        (B, K) and (B, n): False where padded. At least one vehicle each.
    """

    cost: Tensor
    share: Tensor
    slack: Tensor
    vehicles: Tensor
    customers: Tensor

    def __post_init__(self) -> None:
        batch, n, k = self.cost.shape
        shapes = [(batch, n), (batch,), (batch, k), (batch, n)]
        given = (self.share, self.slack, self.vehicles, self.customers)
        if [tuple(tensor.shape) for tensor in given] != shapes:
            raise ValueError(f"shapes for cost {(batch, n, k)} must be {shapes}")
        mass = self.share.sum(dim=1) + self.slack
        room = self.vehicles.sum(dim=1)
        if bool((self.slack < 0).any()) or bool((room < 1).any()):
            raise ValueError("slack must not be negative, and vehicles are needed")
        if bool(((mass - room).abs() > 1e-3 * room).any()):
            raise ValueError("customers and slack together must fill the vehicles")


@dataclass(frozen=True)
class SinkhornSettings:
    """How the prices are found; `TRAINING` and `INFERENCE` are the paper's.

    `tolerance` stops a problem once no vehicle is off by more (0: never).
    `anneal_from` starts at that eps and comes down by steps of sqrt(10), the
    iterations shared out evenly: 20 iterations at 0.01 from a cold start are far
    from converged. None keeps eps fixed, as the paper does.
    """

    eps: float = 0.01
    iterations: int = 20
    tolerance: float = 0.0
    anneal_from: float | None = None

    def stages(self) -> list[tuple[float, int]]:
        """Pairs (eps, iterations), the last one at `eps`."""
        if self.anneal_from is None or self.anneal_from <= self.eps:
            return [(self.eps, self.iterations)]
        steps = math.ceil(2 * math.log10(self.anneal_from / self.eps) - 1e-9)
        each = self.iterations // (steps + 1)
        above = [(self.eps * 10 ** (s / 2), each) for s in range(steps, 0, -1)]
        return [*above, (self.eps, self.iterations - steps * each)]


TRAINING = SinkhornSettings()
INFERENCE = SinkhornSettings(eps=0.001, iterations=1000, tolerance=5e-4)


@dataclass(frozen=True, eq=False)
class TransportPlan:
    """What came out; `prices` may start the next, similar problem."""

    log_y: Tensor  # (B, n, K) log Y; -inf where padded
    log_slack: Tensor  # (B, K) log of the slack customer's shares, alike
    share: Tensor  # (B, n)
    prices: Tensor  # (B, K) in the unit of the cost; 0 where padded
    row_violation: Tensor  # (B,) largest |sum_j Y_ij - 1|
    column_violation: Tensor  # (B,) largest |sum_i Pi_ij - 1|
    iterations: Tensor  # (B,) done
    converged: Tensor  # (B,) both violations within the tolerance, or 1e-3

    @property
    def y(self) -> Tensor:
        """(B, n, K) shares of each customer; rows sum to 1, padding is 0."""
        return self.log_y.exp()

    @property
    def plan(self) -> Tensor:
        """(B, n, K) mass moved: Pi without the slack row."""
        return self.y * self.share[:, :, None]


def sinkhorn(
    problem: TransportProblem,
    settings: SinkhornSettings = TRAINING,
    prices: Tensor | None = None,
) -> TransportPlan:
    """Solve the entropic transport problem; differentiable through the iterations.

    A customer without demand gets the limit of small demands: the softmax over
    vehicles of price minus cost. `prices` (B, K) is a warm start.
    """
    score, log_mass = _with_slack(problem)
    absent = ~problem.vehicles
    price = score.new_zeros(absent.shape) if prices is None else prices
    count = torch.zeros(len(score), dtype=torch.int64, device=score.device)
    unroll = torch.is_grad_enabled() and score.requires_grad
    for eps, iterations in settings.stages():
        stage = _Stage(score / eps, log_mass, absent, settings.tolerance, iterations)
        v = (price / eps).masked_fill(absent, -math.inf)
        v, done = (_unrolled if unroll else _stabilised)(stage, v)
        count = count + done
        price = (v * eps).masked_fill(absent, 0.0)
    return _finish(problem, stage, v, price, count)


@dataclass(frozen=True, eq=False)
class _Stage:
    """One eps: scores and masses (slack last) in units of it, and when to stop."""

    kernel: Tensor  # (B, n + 1, K)
    log_mass: Tensor  # (B, n + 1)
    absent: Tensor  # (B, K)
    tolerance: float
    iterations: int

    def log_loads(self, v: Tensor) -> Tensor:
        """Fit the customers to prices v; log load of each vehicle, v left out."""
        u = self.log_mass - torch.logsumexp(self.kernel + v[:, None], dim=2)
        return torch.logsumexp(self.kernel + u[:, :, None], dim=1)

    def still(self, active: Tensor, log_load: Tensor) -> Tensor:
        """Which problems go on. Only they move: a problem's answer does not depend
        on the others in its batch."""
        if self.tolerance <= 0:
            return active
        return active & (_overload(log_load.detach(), self.absent) > self.tolerance)


def _unrolled(stage: _Stage, v: Tensor) -> tuple[Tensor, Tensor]:
    """Iterate in the log domain throughout; gradients flow through every step."""
    active = torch.ones(len(v), dtype=torch.bool, device=v.device)
    done = torch.zeros_like(active, dtype=torch.int64)
    for _ in range(stage.iterations):
        load = stage.log_loads(v)
        active = stage.still(active, load + v)
        if not bool(active.any()):
            break
        v = torch.where(active[:, None] & ~stage.absent, -load, v)
        done = done + active
    return v, done


def _stabilised(stage: _Stage, v: Tensor) -> tuple[Tensor, Tensor]:
    """The same iterations, most of them as two matrix-vector products.

    After each step in the log domain the plan is absorbed into Y; factors b on its
    columns then do the work of the prices until they leave the range in which
    float32 is safe (Schmitzer, arXiv 1610.06519): 14 times faster at N = 1000.
    """
    active = torch.ones(len(v), dtype=torch.bool, device=v.device)
    done = torch.zeros_like(active, dtype=torch.int64)
    mass, left = stage.log_mass.exp()[:, :, None], stage.iterations
    while left > 0:
        load = stage.log_loads(v)
        active = stage.still(active, load + v)
        if not bool(active.any()):
            break
        v = torch.where(active[:, None] & ~stage.absent, -load, v)
        done, left = done + active, left - 1
        y = torch.softmax(stage.kernel + v[:, None], dim=2)
        y = y.masked_fill_(y < NEGLIGIBLE, 0.0)  # also keeps slow denormals away
        b = torch.ones_like(v)
        for _ in range(min(ABSORB_EVERY, left)):
            column = (y.mT @ (mass / (y @ b[:, :, None])))[:, :, 0]
            going = stage.still(active, (b * column).log())
            fresh = torch.where(going[:, None] & ~stage.absent, 1 / column, b)
            if bool((fresh < 1 / FACTOR).any()) or bool((fresh > FACTOR).any()):
                break  # the next step in the log domain takes it from here
            b, active = fresh, going
            done, left = done + active, left - 1
        v = v + b.log()
    return v, done


def _with_slack(problem: TransportProblem) -> tuple[Tensor, Tensor]:
    """Scores (B, n + 1, K) and log masses (B, n + 1), the slack customer last."""
    cost = problem.cost.masked_fill(~problem.vehicles[:, None], math.inf)
    # A constant per row changes nothing but the rounding, which at eps = 0.001 in
    # float32 it spares: logits would reach 2000.
    lowest = cost.detach().amin(dim=2, keepdim=True)
    padded = ~(problem.customers[:, :, None] & problem.vehicles[:, None])
    score = (lowest - problem.cost).masked_fill(padded, 0.0)
    score = torch.cat([score, torch.zeros_like(score[:, :1])], dim=1)
    share = problem.share.masked_fill(~problem.customers, 0.0)
    mass = torch.cat([share, problem.slack[:, None].to(share.dtype)], dim=1)
    return score, mass.to(score.dtype).log()


def _overload(log_load: Tensor, absent: Tensor) -> Tensor:
    """Largest |load - 1| over the vehicles of each problem."""
    return (log_load.exp() - 1).masked_fill(absent, 0.0).abs().amax(dim=1)


def _finish(
    problem: TransportProblem, stage: _Stage, v: Tensor, price: Tensor, count: Tensor
) -> TransportPlan:
    """Fit the customers exactly and measure what that does to the vehicles."""
    log_y = torch.log_softmax(stage.kernel + v[:, None], dim=2)
    with torch.no_grad():
        load = torch.logsumexp(log_y + stage.log_mass[:, :, None], dim=1)
        column = _overload(load, ~problem.vehicles)
        row = (log_y.exp().sum(dim=2) - 1).abs().amax(dim=1)
        # The 1 % is for rounding: the loop measured the same thing another way.
        converged = torch.maximum(row, column) <= 1.01 * (stage.tolerance or CONVERGED)
    return TransportPlan(
        log_y=log_y[:, :-1].masked_fill(~problem.customers[:, :, None], -math.inf),
        log_slack=log_y[:, -1],
        share=problem.share.masked_fill(~problem.customers, 0.0),
        prices=price.detach(),
        row_violation=row,
        column_violation=column,
        iterations=count,
        converged=converged,
    )


def cost_per_customer(cost: Tensor, share: Tensor) -> Tensor:
    """Costs per unit of mass that make the transport count customers, not demand.

    The transport minimises sum cost_ij Pi_ij, which weighs customers by demand; the
    assignment problem minimises sum cost_ij Y_ij. Dividing by q_i makes the first
    the relaxation of the second; the factor mean q keeps the meaning of eps.
    """
    real = share > 0
    mean = (share * real).sum(dim=1) / real.sum(dim=1).clamp(min=1)
    factor = mean[:, None] / share.clamp(min=SHARE_FLOOR)
    return cost * torch.where(real, factor, 1.0)[:, :, None]


def cross_entropy(plan: TransportPlan, labels: Tensor) -> Tensor:
    """Mean over customers of -log Y at the true vehicle, (B,): the paper's L_OT.

    `labels` (B, n) are vehicles; -1 where padded.
    """
    real = labels >= 0
    weights = real / real.sum(dim=1, keepdim=True).clamp(min=1)
    return _label_loss(plan, labels, weights.to(plan.log_y.dtype))


def _label_loss(plan: TransportPlan, labels: Tensor, weights: Tensor) -> Tensor:
    """Sum over customers of -weight log Y at the true vehicle, (B,)."""
    picked = plan.log_y.gather(2, labels.clamp(min=0)[:, :, None])[:, :, 0]
    return -(picked.masked_fill(labels < 0, 0.0) * weights).sum(dim=1)


def plan_divergence(
    problem: TransportProblem,
    labels: Tensor,
    settings: SinkhornSettings = TRAINING,
    prices: Tensor | None = None,
) -> Tensor:
    """KL(P || Pi) of the true plan P, (B,), with gradient (P - Pi) / eps in the cost.

    It is the cross-entropy weighted by demand with the slack row included, so its
    gradient has a closed form (envelope theorem) once Pi has converged, and a
    usable direction before; nothing is unrolled. It holds because the labels use
    exactly the problem's vehicles: P fits both sides.
    """
    with torch.no_grad():
        found = sinkhorn(problem, settings, prices)
        real = labels >= 0
        share = problem.share.masked_fill(~real, 0.0)
        truth = torch.zeros_like(problem.cost)
        truth.scatter_(2, labels.clamp(min=0)[:, :, None], share[:, :, None])
        spare = (problem.vehicles.to(truth) - truth.sum(dim=1)).clamp(min=0.0)
        value = _label_loss(found, labels, share)
        value = value + _slack_divergence(spare, problem.slack, found.log_slack)
        direction = (truth - found.plan) / settings.eps
    surrogate = (problem.cost * direction).sum(dim=(1, 2))
    return value + (surrogate - surrogate.detach())


def _slack_divergence(spare: Tensor, slack: Tensor, log_share: Tensor) -> Tensor:
    """KL of the slack row: spare capacity per vehicle against slack times shares."""
    moved = slack[:, None].log() + log_share
    # Without slack the row does not exist; what is spare then is rounding.
    absent = (spare <= 0) | (slack[:, None] <= 0)
    term = torch.xlogy(spare, spare) - spare * moved.masked_fill(absent, 0.0)
    return term.sum(dim=1)
