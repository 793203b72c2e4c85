// What moved between two plans: vehicles are matched by the stops they share.

export function difference(now, then) {
  const before = new Map();
  then.routes.forEach((route, r) => route.forEach((id) => before.set(id, r)));
  const after = new Map();
  now.routes.forEach((route, r) => route.forEach((id) => after.set(id, r)));
  const shared = new Map();
  for (const [id, r] of after) {
    if (before.has(id)) {
      const key = `${r} ${before.get(id)}`;
      shared.set(key, (shared.get(key) ?? 0) + 1);
    }
  }
  const pairs = [...shared].sort((a, b) => b[1] - a[1]).map(([key]) => key.split(" ").map(Number));
  const nowOf = new Map(), thenOf = new Map();
  for (const [r, s] of pairs) {
    if (!nowOf.has(s) && !thenOf.has(r)) { nowOf.set(s, r); thenOf.set(r, s); }
  }
  const common = [...after.keys()].filter((id) => before.has(id));
  const moved = common.filter((id) => nowOf.get(before.get(id)) !== after.get(id))
    .map((id) => ({ id, from: nowOf.get(before.get(id)) ?? null, to: after.get(id) }));
  return {
    id: then.id, cost: then.cost, common: common.length, moved,
    fresh: [...after.keys()].filter((id) => !before.has(id)),
    gone: [...before.keys()].filter((id) => !after.has(id)),
  };
}
