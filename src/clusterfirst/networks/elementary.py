"""Exponential, logarithm and error function in float32, inlined into kernels.

The C library's are called number by number; these are sums and products, which the
compiler turns into vector instructions: 0.3 ns instead of 5 (log/). All are within
1e-6 (tests/test_elementary.py), as torch's are.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from clusterfirst.stages.compiled import compiled

# Sums may be taken in any order, which is what lets them use vector instructions; no
# other liberty.
FREEDOM = {"contract", "reassoc"}
F = np.float32

LOG2_E, LN2 = F(1.4426950408889634), F(0.6931471805599453)
LN2_HIGH, LN2_LOW = F(0.693145751953125), F(1.4286068203094172e-06)
EXP_RANGE = F(87.0)
MANTISSA, EXPONENT_ONE, SHIFT = np.int32(0x7FFFFF), np.int32(127), np.int32(23)
ROOT_HALF = np.int32(0x3F3504F3)  # its bits
# erf(x / sqrt 2) = x P(x^2) / Q(x^2), fitted to 2.4e-8 on |x| <= 5.7, where it is 1.
ERF_RANGE = F(5.7)
P0, P1, P2 = F(0.7978844117499012), F(0.06988245097972119), F(0.009481663874782558)
P3, P4 = F(0.0003587890770287975), F(1.2748343817014822e-05)
P5 = F(4.316023844227463e-08)
Q1, Q2, Q3 = F(0.25425013277515335), F(0.029260723655248386), F(0.0019445566047584073)
Q4, Q5 = F(7.676798563342872e-05), F(1.164956179829095e-06)


summing = compiled(fastmath=FREEDOM)
inner_summing = compiled(fastmath=FREEDOM, no_cpython_wrapper=True)


@inner_summing
def exp(x: Any) -> Any:
    """e^x of a float32; x is cut to +-87."""
    x = min(max(x, -EXP_RANGE), EXP_RANGE)
    n = np.rint(x * LOG2_E)
    r = (x - n * LN2_HIGH) - n * LN2_LOW
    p = F(1 / 720) * r + F(1 / 120)
    p = p * r + F(1 / 24)
    p = p * r + F(1 / 6)
    p = p * r + F(0.5)
    p = p * r + F(1.0)
    p = p * r + F(1.0)
    power = np.int32((np.int32(n) + EXPONENT_ONE) << SHIFT)
    return p * power.view(np.float32)


@inner_summing
def log(x: Any) -> Any:
    """Natural logarithm of a positive float32."""
    bits = np.int32(F(x).view(np.int32) - ROOT_HALF)
    n = np.int32(bits >> SHIFT)
    m = np.int32((bits & MANTISSA) + ROOT_HALF).view(np.float32)  # in sqrt(1/2 .. 2)
    s = (m - F(1.0)) / (m + F(1.0))
    z = s * s
    p = F(2 / 9) * z + F(2 / 7)
    p = p * z + F(2 / 5)
    p = p * z + F(2 / 3)
    p = p * z + F(2.0)
    return p * s + F(n) * LN2


@inner_summing
def gelu(x: Any) -> Any:
    """x times the chance that a normal number is below it, as torch computes it."""
    y = min(max(x, -ERF_RANGE), ERF_RANGE)
    z = y * y
    p = ((((P5 * z + P4) * z + P3) * z + P2) * z + P1) * z + P0
    q = ((((Q5 * z + Q4) * z + Q3) * z + Q2) * z + Q1) * z + F(1.0)
    return F(0.5) * x * (F(1.0) + y * p / q)
