"""The transport layer: marginals, oracles, symmetries, gradients, hard corners."""

import math

import numpy as np
import ot
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from clusterfirst.networks.trainable.transport import (
    TransportProblem,
    cross_entropy,
    plan_divergence,
    sinkhorn,
)

EXACT = 0.05, 3000  # eps, and iterations after which nothing moves any more


def draw(seed, n=12, capacity=20, extra=0, dtype=torch.float64, demands=None):
    """One problem with whole-number demands, K and slack from exact integers."""
    rng = np.random.default_rng(seed)
    if demands is None:
        demands = rng.integers(1, 10, n)
    demands = np.asarray(demands)
    k = max(1, -(-int(demands.sum()) // capacity)) + extra
    points, seeds = rng.random((len(demands), 1, 2)), rng.random((1, k, 2))
    cost = np.linalg.norm(points - seeds, axis=2)
    free = k * capacity - int(demands.sum())
    return TransportProblem(
        cost=torch.tensor(cost[None], dtype=dtype),
        share=torch.tensor(demands[None] / capacity, dtype=dtype),
        slack=torch.tensor([free / capacity], dtype=dtype),
        vehicles=torch.ones(1, k, dtype=torch.bool),
        customers=torch.ones(1, len(demands), dtype=torch.bool),
    )


def with_cost(problem, cost):
    return TransportProblem(
        cost, problem.share, problem.slack, problem.vehicles, problem.customers
    )


def padded(problem, n, k, garbage=7.0):
    """The same problem in a larger frame whose padding holds garbage costs."""
    _, n0, k0 = problem.cost.shape
    cost = torch.full((1, n, k), garbage, dtype=problem.cost.dtype)
    cost[:, :n0, :k0] = problem.cost
    share = torch.zeros(1, n, dtype=problem.cost.dtype)
    share[:, :n0] = problem.share
    return TransportProblem(
        cost,
        share,
        problem.slack,
        torch.arange(k)[None] < k0,
        torch.arange(n)[None] < n0,
    )


def feasible_labels(problem, seed=0):
    """A labelling that respects capacity, with the problem's own vehicles."""
    rng = np.random.default_rng(seed)
    room = np.ones(problem.cost.shape[2])
    labels = []
    for q in problem.share[0].tolist():
        vehicle = int(rng.permutation(np.flatnonzero(room >= q - 1e-9))[0])
        room[vehicle] -= q
        labels.append(vehicle)
    return torch.tensor([labels])


def violation(problem, eps, iterations):
    """How far the load of a vehicle is from 1, at most."""
    found = sinkhorn(problem, eps, iterations)
    slack = problem.slack[:, None] * found.log_slack.exp()
    return (found.plan.sum(dim=1) + slack - 1).abs().max()


@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 2**32),
    st.integers(1, 30),
    st.sampled_from([1.0, 0.1, 0.01, 0.001]),
    st.sampled_from([torch.float32, torch.float64]),
    st.sampled_from([0, 1, 5]),
)
def test_plans_are_finite_and_fit(seed, n, eps, dtype, extra):
    """Rows sum to 1 at every eps, and columns come nearer to 1 with the iterations."""
    problem = draw(seed, n=n, extra=extra, dtype=dtype)
    first, found = (violation(problem, eps, rounds) for rounds in (3, 60))
    assert found <= first + 1e-4
    found = sinkhorn(problem, eps, 60)
    assert torch.isfinite(found.y).all()
    assert (found.y >= 0).all()
    assert torch.allclose(found.y.sum(dim=2), torch.ones(1, n, dtype=dtype), atol=1e-4)
    assert torch.allclose(found.plan.sum(dim=2), problem.share, atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    ("demands", "capacity"),
    [
        ([5, 5, 5, 5], 10),  # zero slack: Q divides the total
        ([10], 10),  # one customer, one vehicle, no slack
        ([3], 10),  # one customer, one vehicle
        ([1] * 50, 50),  # one vehicle exactly full
        ([10, 10, 10], 10),  # K = N
        ([0, 0, 7, 3], 10),  # customers without demand
        ([0, 0], 10),  # nothing but such customers
        ([1, 999_999, 500_000], 1_000_000),  # tiny demand
    ],
)
@pytest.mark.parametrize("loss", ["unrolled", "closed"])
def test_corners_give_numbers_and_gradients(demands, capacity, dtype, loss):
    """Zero slack, one vehicle, no demand, tiny demand, padding: never NaN."""
    rounds = 0.001, 20
    base = draw(1, demands=demands, capacity=capacity, dtype=dtype)
    for problem in (base, padded(base, len(demands) + 2, base.cost.shape[2] + 3)):
        cost = problem.cost.clone().requires_grad_()
        live = with_cost(problem, cost)
        labels = torch.full(cost.shape[:2], -1)
        labels[:, : len(demands)] = 0
        if loss == "unrolled":
            value = cross_entropy(sinkhorn(live, *rounds), labels)
        else:
            value = plan_divergence(live, labels, *rounds)
        value.sum().backward()
        assert torch.isfinite(value).all()
        assert torch.isfinite(cost.grad).all()
        assert torch.isfinite(sinkhorn(problem, 0.001, 50).y).all()


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 2**32))
def test_padding_and_batching_change_nothing(seed):
    """A problem alone, padded, and in a batch with another gives the same plan."""
    rounds = 0.02, 300
    one, two = draw(seed, n=9), draw(seed + 1, n=14, extra=1)
    k = max(one.cost.shape[2], two.cost.shape[2]) + 1
    parts = [padded(one, 16, k), padded(two, 16, k, garbage=-3.0)]
    both = TransportProblem(
        *(
            torch.cat([getattr(p, name) for p in parts])
            for name in ("cost", "share", "slack", "vehicles", "customers")
        )
    )
    together = sinkhorn(both, *rounds)
    for row, problem in enumerate((one, two)):
        alone = sinkhorn(problem, *rounds)
        _, n, used = problem.cost.shape
        assert torch.allclose(together.y[row, :n, :used], alone.y[0], atol=1e-9)
        assert together.y[row, n:].abs().sum() == 0
        assert together.y[row, :, used:].abs().sum() == 0


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 2**32))
def test_permutations_and_constants(seed):
    """Permuting customers or vehicles permutes the plan; constants change nothing."""
    problem = draw(seed, n=10)
    rng = np.random.default_rng(seed)
    rows, columns = rng.permutation(10), rng.permutation(problem.cost.shape[2])
    moved = TransportProblem(
        problem.cost[:, rows][:, :, columns],
        problem.share[:, rows],
        problem.slack,
        problem.vehicles,
        problem.customers,
    )
    plain = sinkhorn(problem, *EXACT)
    assert torch.allclose(
        sinkhorn(moved, *EXACT).y, plain.y[:, rows][:, :, columns], atol=1e-9
    )
    shifted = with_cost(problem, problem.cost + torch.randn(1, 10, 1).double())
    assert torch.allclose(sinkhorn(shifted, *EXACT).y, plain.y, atol=1e-9)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("eps", [0.002, 0.01])
@pytest.mark.parametrize("extra", [0, 1])
def test_fast_iterations_equal_those_in_the_log_domain(dtype, eps, extra):
    """Without gradients the iterations are matrix products; the plan is the same."""
    problem = padded(draw(11, n=50, capacity=50, extra=extra, dtype=dtype), 60, 9)
    fast = sinkhorn(problem, eps, 130)
    cost = problem.cost.clone().requires_grad_()
    slow = sinkhorn(with_cost(problem, cost), eps, 130)
    assert slow.log_y.requires_grad
    loose = 1e-3 if dtype == torch.float32 else 1e-9
    assert torch.allclose(fast.y, slow.y.detach(), atol=loose)


def test_equal_customers_and_vehicles_share_alike():
    """Where nothing tells vehicles apart, every customer is spread evenly."""
    problem = with_cost(draw(3), torch.zeros(1, 12, draw(3).cost.shape[2]).double())
    y = sinkhorn(problem, *EXACT).y
    assert torch.allclose(y, torch.full_like(y, 1 / y.shape[2]))


@pytest.mark.parametrize("seed", range(3))
def test_agrees_with_pot(seed):
    """Converged plans equal those of POT's log-domain Sinkhorn to 1e-6."""
    problem = draw(seed)
    rows = torch.cat([problem.share[0], problem.slack]).numpy()
    cost = np.vstack([problem.cost[0].numpy(), np.zeros(problem.cost.shape[2])])
    theirs = ot.sinkhorn(
        rows,
        np.ones(cost.shape[1]),
        cost,
        EXACT[0],
        method="sinkhorn_log",
        numItermax=50_000,
        stopThr=1e-13,
    )
    ours = sinkhorn(problem, *EXACT)
    assert np.allclose(ours.plan[0].numpy(), theirs[:-1], atol=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_small_eps_reaches_the_linear_program(seed):
    """As eps falls the cost comes down to the linear program's."""
    problem = draw(seed, n=14, extra=1)
    _, n, k = problem.cost.shape
    raw, q = problem.cost[0].numpy(), problem.share[0].numpy()
    weight = raw * q[:, None]
    assign = np.kron(np.eye(n), np.ones(k))
    loads = np.kron(q, np.eye(k))
    best = linprog(
        weight.ravel(), A_ub=loads, b_ub=np.ones(k), A_eq=assign, b_eq=np.ones(n)
    ).fun
    above = []
    for eps in (0.1, 0.01, 0.001):
        y = sinkhorn(problem, eps, 20_000).y[0].numpy()
        above.append(float((weight * y).sum()) - best)
    assert above[0] >= above[1] >= above[2] >= -1e-6
    assert above[2] < 2e-3 * best


def test_unrolled_gradient_by_finite_differences():
    """The paper's loss: the gradient through 20 iterations is exact (float64)."""
    problem = padded(draw(4, n=6), 7, 4)
    labels = torch.tensor([[*feasible_labels(draw(4, n=6))[0].tolist(), -1]])

    def loss(cost):
        return cross_entropy(sinkhorn(with_cost(problem, cost), 0.05, 20), labels)

    cost = problem.cost.clone().requires_grad_()
    assert torch.autograd.gradcheck(loss, (cost,), atol=1e-6)


@pytest.mark.parametrize("demands", [[4, 6, 5, 5, 3, 2], [5, 5, 6, 4, 7, 3]])
def test_closed_form_gradient_by_finite_differences(demands):
    """KL(P || Pi) has gradient (P - Pi) / eps, with slack and without (float64)."""
    problem = draw(5, demands=demands, capacity=10)
    labels = torch.tensor(
        [[0, 0, 1, 1, 2, 2]] if problem.cost.shape[2] >= 3 else [[0] * 2 + [1] * 4]
    )

    def loss(cost):
        return plan_divergence(with_cost(problem, cost), labels, *EXACT)

    cost = problem.cost.clone().requires_grad_()
    assert torch.autograd.gradcheck(loss, (cost,), atol=1e-6)
    value = loss(cost)
    assert value >= 0


def test_divergence_is_the_divergence():
    """The value is KL(P || Pi) with the slack row, written out by numpy."""
    problem = draw(6, n=8, extra=1)
    labels = feasible_labels(problem)
    found = sinkhorn(problem, *EXACT)
    q = problem.share[0].numpy()
    truth = np.zeros(problem.cost.shape[1:])
    truth[np.arange(8), labels[0].numpy()] = q
    slack = 1 - truth.sum(axis=0)
    truth = np.vstack([truth, slack])
    plan = np.vstack(
        [
            found.plan[0].numpy(),
            problem.slack.numpy() * found.log_slack[0].exp().numpy(),
        ]
    )
    held = truth > 0
    expected = (truth[held] * np.log(truth[held] / plan[held])).sum()
    assert math.isclose(
        plan_divergence(problem, labels, *EXACT).item(), expected, abs_tol=1e-9
    )


def test_descent_on_the_divergence_recovers_the_labels():
    """Following the closed-form gradient from noise makes the labels certain."""
    problem = draw(7, n=10, extra=1)
    labels = feasible_labels(problem)
    cost = torch.rand_like(problem.cost).requires_grad_()
    rounds = 0.1, 30
    for _ in range(60):
        loss = plan_divergence(with_cost(problem, cost), labels, *rounds).sum()
        (slope,) = torch.autograd.grad(loss, cost)
        with torch.no_grad():
            cost -= 0.1 * slope
    found = sinkhorn(with_cost(problem, cost), *rounds)
    assert (found.y.argmax(dim=2) == labels).all()


def test_wrong_masses_are_refused():
    """Negative slack and masses that do not add up are errors, not plans."""
    good = draw(9)
    for slack in (-good.slack - 0.1, good.slack + 1.0):
        with pytest.raises(ValueError, match=r"slack"):
            TransportProblem(
                good.cost, good.share, slack, good.vehicles, good.customers
            )
