"""Entropic optimal transport of customers to vehicles (the paper, Section 2.3).

K vehicles of capacity 1 receive customers of mass q_i = d_i / Q; a slack customer of
mass K - sum q fills them up. With a plan that fits the customers exactly,
Y_ij = Pi_ij / q_i = softmax_j((g_j - cost_ij) / eps) whatever q_i is, so the layer
only looks for the prices g of the vehicles, in the log domain, and ends on the
customers. Padding, zero slack and customers without demand need no special case:
they weigh nothing.

Two losses: cross-entropy on Y with the iterations unrolled (the paper), and
`plan_divergence`, whose gradient (P - Pi) / eps needs no unrolling. Answers have their
plan from `networks/plan.py`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

EPS, ITERATIONS = 0.01, 20  # the paper's, while training
FACTOR = 1e8  # prices may change by this factor between two steps in the log domain
NEGLIGIBLE = 1e-30  # shares of a customer below this are 0 in between


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


@dataclass(frozen=True, eq=False)
class TransportPlan:
    """What came out."""

    log_y: Tensor  # (B, n, K) log Y; -inf where padded
    log_slack: Tensor  # (B, K) log of the slack customer's shares, alike
    share: Tensor  # (B, n)

    @property
    def y(self) -> Tensor:
        """(B, n, K) shares of each customer; rows sum to 1, padding is 0."""
        return self.log_y.exp()

    @property
    def plan(self) -> Tensor:
        """(B, n, K) mass moved: Pi without the slack row."""
        return self.y * self.share[:, :, None]


def sinkhorn(
    problem: TransportProblem, eps: float = EPS, iterations: int = ITERATIONS
) -> TransportPlan:
    """Solve the entropic transport problem; differentiable through the iterations.

    A customer without demand gets the limit of small demands: the softmax over
    vehicles of price minus cost.
    """
    score, log_mass = _with_slack(problem)
    absent = ~problem.vehicles
    v = score.new_zeros(absent.shape).masked_fill(absent, -math.inf)
    unroll = torch.is_grad_enabled() and score.requires_grad
    v = (_unrolled if unroll else _stabilised)(score / eps, log_mass, v, iterations)
    log_y = torch.log_softmax(score / eps + v[:, None], dim=2)
    return TransportPlan(
        log_y[:, :-1].masked_fill(~problem.customers[:, :, None], -math.inf),
        log_y[:, -1],
        problem.share.masked_fill(~problem.customers, 0.0),
    )


def _step(kernel: Tensor, log_mass: Tensor, v: Tensor) -> Tensor:
    """Fit the customers to prices v, then the prices to the loads, as logarithms."""
    u = log_mass - torch.logsumexp(kernel + v[:, None], dim=2)
    load = torch.logsumexp(kernel + u[:, :, None], dim=1)
    return torch.where(v > -math.inf, -load, v)


def _unrolled(kernel: Tensor, log_mass: Tensor, v: Tensor, iterations: int) -> Tensor:
    """Iterate in the log domain throughout; gradients flow through every step."""
    for _ in range(iterations):
        v = _step(kernel, log_mass, v)
    return v


def _stabilised(kernel: Tensor, log_mass: Tensor, v: Tensor, left: int) -> Tensor:
    """The same iterations, most of them as two matrix-vector products.

    After each step in the log domain the plan is absorbed into Y; factors b on its
    columns then do the work of the prices until they leave the range in which
    float32 is safe (Schmitzer, arXiv 1610.06519): three times faster at N = 1000.
    """
    mass, there = log_mass.exp()[:, :, None], v > -math.inf
    while left > 0:
        v, left = _step(kernel, log_mass, v), left - 1
        y = torch.softmax(kernel + v[:, None], dim=2)
        y = y.masked_fill_(y < NEGLIGIBLE, 0.0)  # also keeps slow denormals away
        b = torch.ones_like(v)
        while left > 0:
            column = (y.mT @ (mass / (y @ b[:, :, None])))[:, :, 0]
            fresh = torch.where(there, 1 / column, b)
            if bool((fresh < 1 / FACTOR).any()) or bool((fresh > FACTOR).any()):
                break  # the next step in the log domain takes it from here
            b, left = fresh, left - 1
        v = v + b.log()
    return v


def _with_slack(problem: TransportProblem) -> tuple[Tensor, Tensor]:
    """Scores (B, n + 1, K) and log masses (B, n + 1), the slack customer last."""
    cost = problem.cost.masked_fill(~problem.vehicles[:, None], math.inf)
    # A constant per row changes nothing but the rounding, which at small eps in
    # float32 it spares: logits would reach 2000.
    lowest = cost.detach().amin(dim=2, keepdim=True)
    padded = ~(problem.customers[:, :, None] & problem.vehicles[:, None])
    score = (lowest - problem.cost).masked_fill(padded, 0.0)
    score = torch.cat([score, torch.zeros_like(score[:, :1])], dim=1)
    share = problem.share.masked_fill(~problem.customers, 0.0)
    mass = torch.cat([share, problem.slack[:, None].to(share.dtype)], dim=1)
    return score, mass.to(score.dtype).log()


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
    eps: float = EPS,
    iterations: int = ITERATIONS,
) -> Tensor:
    """KL(P || Pi) of the true plan P, (B,), with gradient (P - Pi) / eps in the cost.

    It is the cross-entropy weighted by demand with the slack row included, so its
    gradient has a closed form (envelope theorem) once Pi has converged, and a
    usable direction before; nothing is unrolled. It holds because the labels use
    exactly the problem's vehicles: P fits both sides.
    """
    with torch.no_grad():
        found = sinkhorn(problem, eps, iterations)
        real = labels >= 0
        share = problem.share.masked_fill(~real, 0.0)
        truth = torch.zeros_like(problem.cost)
        truth.scatter_(2, labels.clamp(min=0)[:, :, None], share[:, :, None])
        spare = (problem.vehicles.to(truth) - truth.sum(dim=1)).clamp(min=0.0)
        value = _label_loss(found, labels, share)
        value = value + _slack_divergence(spare, problem.slack, found.log_slack)
        direction = (truth - found.plan) / eps
    surrogate = (problem.cost * direction).sum(dim=(1, 2))
    return value + (surrogate - surrogate.detach())


def _slack_divergence(spare: Tensor, slack: Tensor, log_share: Tensor) -> Tensor:
    """KL of the slack row: spare capacity per vehicle against slack times shares."""
    moved = slack[:, None].log() + log_share
    # Without slack the row does not exist; what is spare then is rounding.
    absent = (spare <= 0) | (slack[:, None] <= 0)
    term = torch.xlogy(spare, spare) - spare * moved.masked_fill(absent, 0.0)
    return term.sum(dim=1)
