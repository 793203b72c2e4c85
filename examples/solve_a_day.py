"""Plan one day in a city of your own: python examples/solve_a_day.py"""

from pathlib import Path

import clusterfirst as cf
from clusterfirst.files import read_locations

HERE = Path(__file__).parent / "lyon"

city = read_locations(HERE / "locations.csv", depot="warehouse")
day = cf.read_orders(HERE / "orders.csv", city, capacity=60)
result = cf.solve(day, cf.SolveOptions(seed=0, time_limit=1.0))

for number, route in enumerate(result.solution.routes, start=1):
    stops = " -> ".join(day.ids[customer] for customer in route)
    print(f"vehicle {number}, load {result.verdict.loads[number - 1]:g}: {stops}")
print(f"{result.verdict.cost:.1f} {day.unit}, method {result.method}")
cf.write_picture("lyon.png", day, result.solution)
