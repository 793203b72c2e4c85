"""Which start an answer begins with where nobody asked for one.

The network's answer is worth most to the search after it, but takes longest: it is
taken where one decoding is done in a seventh of the time, one round of savings
otherwise. The tables that decided it are in log/ (2026-11-18 and 19): validation
instances of 100 to 5000 customers, paired.
"""

from __future__ import annotations

from dataclasses import replace

from clusterfirst.problem.errors import InputError
from clusterfirst.problem.instance import Instance
from clusterfirst.solving.options import AUTO, SolveOptions
from clusterfirst.stages.search.schedule import PolishSettings

START_SHARE = 0.15  # of the time is the start's, if a search follows
ONE_DECODING = 0.15  # of the time may go into one, which is worth that
SAVINGS_SHARE = 0.6  # of the time, at most, for one round of savings
CUT = 0.25  # of the time, when a busy core has not finished it
NETWORK_SECONDS = 0.002, 4.2e-5  # of one on an idle core: at least, and per customer
# Customers. Below, any start is as good; above, savings is and leaves more time.
NETWORK_FROM, NETWORK_TO = 30, 3000
COOLER_FROM = 2000  # customers from which savings, too, is a start not to be melted


def default_time_limit(customers: int) -> float:
    """1 second; above 1000 customers a millisecond each."""
    return max(1.0, customers / 1000)


def with_method(instance: Instance, options: SolveOptions) -> tuple[SolveOptions, str]:
    """The options with a method instead of `auto`, and why not the network, if so.

    By counts there is no time to share out, and without a search the start is all:
    then it is Fisher-Jaikumar, which asks nothing of an instance.
    """
    if options.method != AUTO:
        return options, ""
    n, why_not = instance.num_customers, ""
    if not options.polishes or not may_ask_network(instance, options):
        return replace(options, method="fisher-jaikumar"), ""
    limit = options.time_limit or default_time_limit(n)
    one = _seconds(NETWORK_SECONDS, n)
    if n <= NETWORK_TO and one <= ONE_DECODING * limit:
        why_not = _unknown(instance, options)
        if not why_not:
            chosen = replace(options, method="neural")
            if 2 * one > START_SHARE * limit:  # no time for a second decoding
                chosen = replace(chosen, recentre=0, fleet="kmin")
            return chosen, ""
    return replace(options, method="savings"), why_not


def may_ask_network(instance: Instance, options: SolveOptions) -> bool:
    """Whether `auto` could mean the network: by the clock, and not for a few orders."""
    enough = instance.num_customers >= NETWORK_FROM
    return options.method == AUTO and options.iterations is None and enough


def start_share(options: SolveOptions) -> float:
    """Share of the time after which the start is cut off, if a search follows."""
    if options.method == "savings":
        return SAVINGS_SHARE
    single = options.recentre == 0 and options.fleet == "kmin"
    return CUT if options.method == "neural" and single else START_SHARE


def first_temperature(
    instance: Instance, method: str, settings: PolishSettings
) -> float:
    """Of the search that begins with this method's routes."""
    n, longest = instance.num_customers, settings.long_routes * instance.min_vehicles
    if method == "neural" and n <= longest:
        return settings.cooler
    if method == "savings" and n >= COOLER_FROM:
        return settings.cooler
    return settings.hot


def _seconds(law: tuple[float, float], customers: int) -> float:
    least, each = law
    return least + each * customers


def _unknown(instance: Instance, options: SolveOptions) -> str:
    """Why the network should not be asked, or nothing."""
    from clusterfirst.networks.model_folder import load_model
    from clusterfirst.networks.neural import DEFAULT_MODEL

    if instance.coords is None:
        return "not started from the network: it needs coordinates"
    model = load_model(options.model or DEFAULT_MODEL)
    try:
        model.rows_of(instance, borrow=options.new_locations == "nearest")
    except InputError as error:
        return f"not started from the network: {error.problems[0]}"
    strange = model.strange(instance)
    strange.pop("customers", None)  # measured beyond what was trained on
    found = "; ".join(strange.values())
    return f"not started from the network: {found}" if found else ""
