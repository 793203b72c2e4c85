"""Fill measured numbers into README.md and the model cards, between markers.

    python docs/generate_numbers.py

A number stands once, in benchmarks/results (measured here) or benchmarks/published.json
(printed by its authors); a test compares the pages with them. `<!-- numbers:NAME -->`
opens a block and `<!-- numbers:end -->` closes it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from statistics import correlation, median, stdev
from typing import Any

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks" / "results"
MODELS = ROOT / "src" / "clusterfirst" / "models"
BLOCK = re.compile(
    r"(<!-- numbers:(\w[^>]*?) -->\n).*?(<!-- numbers:end -->)", re.DOTALL
)
SETS = (
    "city-100",
    "city-200",
    "city-500",
    "city-1000",
    "cvrp100",
    "lehd200",
    "lehd500",
    "cvrp1000",
    "xml100",
    "X",
    "belem",
    "leuven1",
)
PAPER = "Neural CFRS"
PARTS = ("free", "polished")  # of what a learned city is measured in
# As README.md calls them; of our methods the one with the general model.
NAMES = {
    "neural:general+polish": "**clusterfirst**",
    "clusterfirst": "**clusterfirst**",
    "ails": "AILS-II",
    "filo2": "FILO2",
    "hgs": "HGS",
    "ortools": "OR-Tools",
    "pyvrp": "PyVRP",
    "savant": "SAVANT",
    "vroom": "VROOM",
}
TABLES = "docs/benchmarks.md"  # as README.md links to it


def pages() -> list[Path]:
    """Every page with such blocks."""
    names = ("dispatch.md", "service.md", "scale.md", "a-real-city.md")
    docs = [ROOT / "docs" / name for name in names]
    return [ROOT / "README.md", *docs, *sorted(MODELS.glob("*/README.md"))]


def filled(text: str) -> str:
    """The text with every block written anew."""

    def block(found: re.Match[str]) -> str:
        name, _, argument = found[2].partition(" ")
        return f"{found[1]}{MAKERS[name](argument)}\n{found[3]}"

    return BLOCK.sub(block, text)


def gaps_of_model(model: str) -> str:
    """The search-free gaps of a shipped model, the paper's best beside them."""
    rows = ["| set | gap % | seconds | the paper (its own reference) | our reference |"]
    rows.append("|---|---:|---:|---:|---|")
    for name in SETS:
        table = _stored("alone", name)
        line = _line(table, f"neural:{model}")
        if line is None:
            continue
        rows.append(
            f"| {table['title']}, {line['gap']['count']} | {_gap(line)} "
            f"| {line['seconds']:.2g} | {_papers(name)} "
            f"| {table['result']['references']} |"
        )
    dates = sorted(_stored("alone", name)["date"][:10] for name in SETS)
    return "\n".join(
        [
            f"Measured {dates[0]} to {dates[-1]} on one core, other work beside "
            "(`python benchmarks/tables.py alone`).",
            "",
            *rows,
        ]
    )


def with_search(arguments: str) -> str:
    """Our best and the peers on a set at one limit, best first: one line."""
    name, limit = arguments.split()
    table = _stored("search", name)
    at = [line for line in table["result"]["lines"] if f"{line['limit']:g}" == limit]
    named = [one for one in at if one["gap"]["count"] and one["method"] in NAMES]
    ranked = sorted(named, key=_value)
    words = ", ".join(f"{NAMES[one['method']]} {_value(one):.2f} %" for one in ranked)
    return (
        f"- [{table['title']}]({TABLES}#where-we-win-and-where-we-lose), {limit} s on "
        f"{table['cores']} cores, above {table['result']['references']}: {words} "
        f"({_when(table)})."
    )


def one_core(arguments: str) -> str:
    """The search alone and the fastest programs, in equal seconds of one core."""
    name, seconds = arguments.split()
    rows = json.loads((RESULTS / "search-alone.json").read_text(encoding="utf-8"))
    at = [r for r in rows if (r["set"], f"{r['seconds']:g}") == (name, seconds)]
    ranked = sorted(at, key=lambda row: row["gap"])
    named = [(NAMES.get(row["method"], row["method"]), row["gap"]) for row in ranked]
    words = ", ".join(f"{name} {gap:.2f} %" for name, gap in named)
    ours = next(row for row in ranked if row["method"] == "clusterfirst")
    return (
        f"- [The search alone]({TABLES}#the-search-alone-one-core), {seconds} s of one "
        f"core, {ours['instances']} instances of {name}, above {ours['references']}: "
        f"{words} ({ours['date'][:10]}, {ours['commit']})."
    )


def search_free(arguments: str) -> str:
    """One model on several sets without search: one line."""
    model, *names = arguments.split()
    parts = []
    for name in names:
        table = _stored("alone", name)
        line = _line(table, f"neural:{model}")
        assert line is not None
        paper = _papers(name)
        beside = f" (the paper {paper})" if paper else ""
        title = table["title"].replace("The ", "the ", 1)
        parts.append(f"{_value(line):.2f} % on {title}{beside}, {_when(table)}")
    return (
        f"- [Without search]({TABLES}#the-networks-alone), `{model}`: a gap of "
        f"{'; '.join(parts)}."
    )


def service(_: str) -> str:
    """What the service promises, and what was measured."""
    parts = json.loads((RESULTS / "service.json").read_text(encoding="utf-8"))
    steady, over, page = parts["load"], parts["overload"], parts["page"]
    first, extra = parts["first"], parts["overhead"]
    low, high = steady["load_averages"]
    refused = sum(n for kind, n in over["answers"].items() if kind in ("429", "413"))
    rows = [
        (
            "a plan of N = 100 at 0.2 s takes at most 30 ms more than `solve`",
            f"{extra['median_ms']:g} ms (median of 60; {extra['cpu_ms']:g} ms of CPU)"
            + _priority(extra),
            extra["load_average"],
        ),
        (
            "4 plans/s for an hour at p99 of at most 3 s, none wrong or mixed",
            f"{steady['answers'].get('right', 0):,} of "
            f"{sum(steady['answers'].values()):,} right in {steady['seconds']:.0f} s, "
            f"p50 {steady['p50_s']:g} s, p99 {steady['p99_s']:g} s" + _priority(steady),
            f"{low:g} to {high:g}",
        ),
        (
            "memory flat within 5 % over that hour",
            f"{steady['memory_growth_percent']:+g} % ({steady['memory_mb']} MB with "
            "two workers, shared libraries left out)",
            f"{low:g} to {high:g}",
        ),
        (
            "ten times too many requests are refused inside 100 ms",
            f"{refused} refusals, p99 {over['refused_p99_ms']:g} ms, slowest "
            f"{over['refused_max_ms']:g} ms" + _priority(over),
            over["load_average"],
        ),
        _kills(parts["kills"]),
        (
            "routes appear within a second",
            ", ".join(
                f"{first[f'n{size}_s']:g} s at N = {size:,}"
                for size in (200, 2000, 5000, 20_000)
            )
            + f" (request to first event{_priority(first)})",
            first["load_average"],
        ),
        (
            "first paint below 1 s, weight below 600 kB",
            f"{page['first_paint_ms']} ms, {page['weight_kb']} kB" + _priority(page),
            page["load_average"],
        ),
        (
            "2,000 stops pan fluently",
            f"{page['pan_2000_stops_p95_ms']:g} ms a frame (p95), a whole drawing "
            f"{page['draw_2000_stops_ms']:g} ms",
            page["load_average"],
        ),
        (
            "nothing blocks the page longer than 100 ms at 2,000 stops",
            "the longest task, in ms of CPU: "
            + ", ".join(f"{act} {ms:g}" for act, ms in page["longest_task_ms"].items()),
            page["load_average"],
        ),
    ]
    lines = [f"| {a} | {b} | {c} |" for a, b, c in rows]
    return "\n".join(["| promise | measured | load average |", "|---|---|---|", *lines])


def _priority(part: dict[str, Any]) -> str:
    """How it was helped against the other programs of the machine, if it was."""
    return f", at priority {part['priority']}" if "priority" in part else ""


def _kills(found: dict[str, Any]) -> tuple[str, str, float]:
    """Kills under load; most of what is not answered was refused or cut off."""
    answers = found["answers"]
    asked, refused = sum(answers.values()), answers.get("429", 0)
    words = (
        f"{found['worker_kills']} and {found['service_kills']} (code of "
        f"{found['commit']}): of {asked:,} requests {found['answered_plans']:,} "
        f"answered with routes, {refused:,} refused with 429, the others cut off, late "
        f"or failed; of the answered {found['lost']} lost, database "
        f"{'sound' if found['database_sound'] else 'NOT sound'}"
    )
    promise = "500 kills of workers and 20 of the service lose no answered plan"
    return promise, words, found["load_average"]


def scale(_: str) -> str:
    """Measured figures of the cluster, and what they come to for many cities."""
    found = json.loads((RESULTS / "scale.json").read_text(encoding="utf-8"))
    low, high = found["load_average"]
    task = found["tasks"]["100"]
    days = CITIES * DAYS
    core_hours = days * SOLVING * found["cpu_ratio"] / 3600
    fed = SOLVING / (task["dispatch_ms"] / 1000)
    rows = [
        f"- {found['instances']} days of N = 100 by counts: "
        f"{found['seconds_one_process']:g} s in one process, "
        f"{found['seconds_two_nodes']:g} s on two nodes of one core: efficiency "
        f"{found['efficiency']:.2f} at load {low:g} to {high:g} on two cores "
        f"({found['date']}). The workers spend {found['cpu_ratio']:g} times the CPU.",
        f"- One task costs the process that sends it {task['dispatch_ms']:g} ms of CPU "
        f"at N = 100 ({task['bytes']:,} bytes), "
        f"{found['tasks']['1000']['dispatch_ms']:g} ms at N = 1000 "
        f"({found['tasks']['1000']['bytes']:,} bytes).",
        "",
        f"**{CITIES:,} cities x {DAYS} days** of N = 100 at {SOLVING:g} s each are "
        f"{days:,} days: {core_hours:,.0f} core-hours.",
        "",
        "| cores | hours |",
        "|---:|---:|",
        *(
            f"| {cores:,} | {core_hours / cores / found['efficiency']:,.1f} |"
            for cores in (2, 16, 100, 500)
        ),
        "",
        f"The limit is the process that sends: at {SOLVING:g} s a day it feeds about "
        f"{fed:,.0f} cores. Beyond that, start one `solve` per part of the cities.",
    ]
    return "\n".join(rows)


CITIES, DAYS, SOLVING = 1000, 365, 1.0  # the question of docs/scale.md; seconds a day


def beside_pyvrp(_: str) -> str:
    """Gaps of both solvers to the better answer of each day."""
    table = _stored("dispatch", "peer")
    lines = ["| orders | CPU seconds | days | clusterfirst % | PyVRP % | days ahead |"]
    lines.append("|---:|---:|---:|---:|---:|---:|")
    best: dict[int, float] = {}
    for row in table["rows"]:
        costs = [row[name] for name in ("clusterfirst", "PyVRP") if row[name]]
        best[row["day"]] = min([best.get(row["day"], costs[0]), *costs])
    for orders, seconds in sorted({(r["orders"], r["seconds"]) for r in table["rows"]}):
        rows = [
            r for r in table["rows"] if (r["orders"], r["seconds"]) == (orders, seconds)
        ]
        cells = [f"{orders}", f"{seconds:g}", f"{len(rows)}"]
        for name in ("clusterfirst", "PyVRP"):
            found = [100 * (r[name] / best[r["day"]] - 1) for r in rows if r[name]]
            none = len(rows) - len(found)
            mean = f"{sum(found) / len(found):.2f}" if found else "-"
            cells.append(mean + (f" ({none} without an answer)" if none else ""))
        ahead = sum(not r["PyVRP"] or r["clusterfirst"] < r["PyVRP"] for r in rows)
        lines.append(f"| {' | '.join([*cells, f'{ahead}'])} |")
    old = sum("commit" not in row for row in table["rows"])
    older = f"; {old} of {len(table['rows'])} answers are of 2026-11-18, older code"
    return "\n".join([*lines, "", f"{_when(table)}{older if old else ''}."])


def wide_limits(_: str) -> str:
    """What limits that do not bind cost."""
    table = _stored("dispatch", "wide")
    rows = table["rows"]
    ratio = sum(row["ratio"] for row in rows) / len(rows)
    gap = 100 * (sum(r["limited"] / r["plain"] for r in rows) / len(rows) - 1)
    return (
        f"1,000 orders, every limit on and none binding, equal iterations: {ratio:.2f} "
        f"times the CPU seconds of the plain search, routes {gap:+.2f} % ({len(rows)} "
        f"days, {_when(table)})."
    )


def plain_ratio(_: str) -> str:
    """A plain CVRP today beside the code that knew no limits."""
    table = _stored("dispatch", "plain")
    rows, old = table["rows"], table["before"]
    today, before = (min(r[f"{k}_cpu"] for r in rows) for k in ("today", "before"))
    cost = 100 * (rows[0]["today"] / rows[0]["before"] - 1)
    return (
        f"A plain CVRP of 500 orders, equal counts: {today / before:.2f} times the "
        f"CPU seconds of {old}, the last code without limits, cost {cost:+.2f} % "
        f"({len(rows)} turns in one run, {_when(table)})."
    )


def keeping_curve(_: str) -> str:
    """What stays, and what that costs, over the price of a move, on days of kinds."""
    table = _stored("dispatch", "keep")
    rows, days = table["rows"], {row["day"] for row in table["rows"]}
    kinds = list(dict.fromkeys(row["kind"] for row in rows))
    lines = [f"| price of a move | {' | '.join(kinds)} |"]
    lines.append("|---:|" + "---:|" * len(kinds))
    for price in sorted({row["price"] for row in rows}):
        cells = []
        for kind in kinds:
            some = [r for r in rows if (r["price"], r["kind"]) == (price, kind)]
            kept, longer = (
                100 * sum(row[key] for row in some) / len(some)
                for key in ("pairs", "longer")
            )
            cells.append(f"{kept:.1f}, {longer:+.2f}")
        lines.append(f"| {price:g} | {' | '.join(cells)} |")
    said = f"{len(days)} days of each kind: same-route pairs kept and more length, in %"
    return "\n".join([*lines, "", f"{said} ({_when(table)})."])


def warm_starts(_: str) -> str:
    """A warm start beside a fresh run of the same seconds."""
    table = _stored("dispatch", "warm")
    gaps = [100 * (row["warm"] / row["fresh"] - 1) for row in table["rows"]]
    mean, days = sum(gaps) / len(gaps), len(gaps)
    spread = (sum((gap - mean) ** 2 for gap in gaps) / (days - 1)) ** 0.5
    return (
        f"Warm starts against fresh runs of the same seconds: {mean:+.2f} +- "
        f"{2 * spread / days**0.5:.2f} % ({days} days, {_when(table)})."
    )


def blind_quotes(_: str) -> str:
    """Quotes beside the true prices, on days that chose nothing."""
    table = _stored("city", "quotes")
    rows = table["rows"]
    true = [row["true"] for row in rows]
    lines = ["| | mean | rank correlation | absolute error, mean and median |"]
    lines += ["|---|---:|---:|---:|", f"| true price | {_mean(true):,.0f} | | |"]
    for name, what in (("naive", "naive insertion"), ("p50", "p50 of the quote")):
        found = [row[name] for row in rows]
        off = [abs(a - b) for a, b in zip(found, true, strict=True)]
        ranks = correlation(_ranks(true), _ranks(found))
        cells = [f"{_mean(found):,.0f}", f"{ranks:.2f}"]
        cells.append(f"{_mean(off):,.0f} and {median(off):,.0f}")
        lines.append(f"| {what} | {' | '.join(cells)} |")
    inside = _mean([row["p10"] <= row["true"] <= row["p90"] for row in rows])
    below = _mean([row["true"] < row["p50"] for row in rows])
    days = len({row["day"] for row in rows})
    note = (
        f"{len(rows)} orders of {days} days, {table['completions']} completions each "
        f"({_when(table)}): {inside:.0%} of the true prices lie between p10 and p90 "
        f"(80% would be right), {below:.0%} below p50."
    )
    return "\n".join([*lines, "", note])


def familiar_curve(_: str) -> str:
    """Familiarity against length, over the price of a strange stop."""
    table = _stored("city", "territories")
    rows = table["rows"]
    lines = ["| `--familiar` | familiar stops: free plan | with the price | strange "]
    lines[0] += "stops come home | longer | than a free search of both efforts |"
    lines.append("|---:|---:|---:|---:|---:|---:|")
    keys = ("before", "now", "longer", "longer_than_long")
    for weight in sorted({row["weight"] for row in rows}):
        some = [row for row in rows if row["weight"] == weight]
        before, now, longer, long = (_mean([row[key] for row in some]) for key in keys)
        home = (now - before) / (1 - before)
        cells = f"{before:.0%} | {now:.0%} | {home:.0%} | {longer:+.1%} | {long:+.1%}"
        lines.append(f"| {weight:g} | {cells} |")
    days = len({row["day"] for row in rows})
    return "\n".join([*lines, "", f"{days} days, {_when(table)}."])


def learned_city(_: str) -> str:
    """Models on days held back, without search and after a short polish."""
    table = _stored("city", "learned")
    lines = [
        "| model | `--seed-sets` | CPU s | without search | after 0.06 CPU s more |"
    ]
    lines.append("|---|---:|---:|---:|---:|")
    for model in table["models"]:
        cells = [f"{_mean(model[k]):.1%} ± {_half(model[k]):.1%}" for k in PARTS]
        sets = model["seed_sets"] or "default"
        cells = [str(sets), f"{model['free_cpu_seconds']:.2f}", *cells]
        lines.append(f"| {model['model']} | {' | '.join(cells)} |")
    days = len(table["models"][0]["days"])
    note = f"{days} days held back, above HGS of {table['hgs_seconds']:g} s a day"
    return "\n".join([*lines, "", f"{note}, {_when(table)}."])


MAKERS: dict[str, Callable[[str], str]] = {
    "gaps": gaps_of_model,
    "search": with_search,
    "free": search_free,
    "core": one_core,
    "service": service,
    "scale": scale,
    "pyvrp": beside_pyvrp,
    "plain": plain_ratio,
    "wide": wide_limits,
    "keeping": keeping_curve,
    "warm": warm_starts,
    "quotes": blind_quotes,
    "familiar": familiar_curve,
    "learned": learned_city,
}


def _stored(kind: str, name: str) -> dict[str, Any]:
    path = RESULTS / f"{kind}-{name}.json"
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def _line(table: dict[str, Any], method: str) -> dict[str, Any] | None:
    lines = table["result"]["lines"]
    return next((line for line in lines if line["method"] == method), None)


def _when(table: dict[str, Any]) -> str:
    """Day and commit of a measurement: the code may have changed since."""
    return f"{table['date'][:10]}, {table['commit'].rstrip('+')}"


def _half(values: list[float]) -> float:
    """Two standard errors."""
    return 2 * stdev(values) / len(values) ** 0.5


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


def _ranks(values: list[float]) -> list[float]:
    """Place in the order of size; equal ones share the mean of theirs."""
    order = sorted(values)
    return [order.index(v) + (order.count(v) - 1) / 2 for v in values]


def _value(line: dict[str, Any]) -> float:
    return float(line["gap"]["value"])


def _gap(line: dict[str, Any]) -> str:
    half = line["gap"]["half"]
    return f"{_value(line):.2f}" + ("" if half is None else f" ± {half:.2f}")


def _papers(name: str) -> str:
    """The best that the paper prints of its own method on a set."""
    path = ROOT / "benchmarks" / "published.json"
    rows = json.loads(path.read_text(encoding="utf-8"))
    found = [
        row["gap"]
        for row in rows
        if row["table"] == name and row["method"].startswith(PAPER)
    ]
    return f"{min(found):g}" if found else ""


def main() -> None:
    """Write every page."""
    for page in pages():
        page.write_text(filled(page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
