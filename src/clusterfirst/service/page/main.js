// The page: one state, views that show it, and acts that change it.

import { Problem, call, download, follow, journal } from "./api.js";
import { difference } from "./compare.js";
import { RouteMap } from "./map.js";
import * as views from "./views.js";

const $ = (id) => document.getElementById(id);
const TABS = { orders: "Orders", vehicles: "Vehicles", stops: "Stops", why: "Why", compare: "Compare", export: "Export", curl: "curl" };
const VIEWS = { orders: views.ordersView, vehicles: views.vehiclesView, stops: views.stopsView, why: views.whyView, compare: views.compareView, export: views.exportView, curl: views.curlView };
const XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet";

const BETWEEN = 250; // milliseconds between two looks at a plan that gets better

const state = {
  tab: "orders", plan: null, instance: null, orders: null, checked: null, fields: {}, cities: [], recent: [], limits: null,
  speed: 30, selected: null, why: null, quote: null, compare: null, opened: new Set(), word: "", redo: [], journal,
  demand: new Map(), place: new Map(), running: null,
};

const map = new RouteMap($("map"), {
  select: (id) => act.select(id), ground: (at) => act.ground(at), point: (id, event) => act.point(id, event),
  drag: (id) => act.drag(id), over: (r, event) => act.over(r, event), drop: (id, r) => act.dropOn(id, r),
});

// --- showing --------------------------------------------------------------------

function render() {
  $("actions").hidden = !state.instance;
  $("plan").hidden = Boolean(state.running);
  $("plan").disabled = !state.instance || Boolean(state.checked?.problems.length);
  $("stop").hidden = !state.running;
  $("undo").disabled = !state.plan?.parent || Boolean(state.running);
  $("redo").disabled = !state.redo.length || Boolean(state.running);
  $("welcome").hidden = Boolean(state.instance);
  $("title").textContent = state.plan ? [state.plan.name, views.when(state.plan.created), state.plan.version > 1 ? `version ${state.plan.version}` : ""].filter(Boolean).join(" · ") : state.instance?.name ?? "";
  $("title").title = state.plan?.statement ?? "";
  renderTabs();
  renderView();
  renderFigures();
}

function renderTabs() {
  const tabs = Object.entries(TABS).map(([key, text]) => views.h("button", {
    role: "tab", id: `tab-${key}`, "aria-selected": String(state.tab === key), "aria-controls": "view", tabindex: state.tab === key ? "0" : "-1",
    onclick: () => act.tab(key),
    onkeydown: (e) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[e.key];
      if (!step) return;
      const keys = Object.keys(TABS);
      act.tab(keys[(keys.indexOf(key) + step + keys.length) % keys.length]);
      $(`tab-${state.tab}`).focus();
    },
    text,
  }));
  const focused = document.activeElement?.id;
  $("tabs").replaceChildren(...tabs);
  if (focused?.startsWith("tab-")) $(focused)?.focus();
  $("view").setAttribute("aria-labelledby", `tab-${state.tab}`);
}

function renderView() {
  const top = $("view").scrollTop;
  const held = document.activeElement?.closest?.("#view") && document.activeElement !== $("view") ? known(document.activeElement) : "";
  const { value: typed, selectionStart: caret } = held ? document.activeElement : {};
  if (state.tab !== state.shown) map.set({ hovered: null });
  $("view").replaceChildren(VIEWS[state.tab](state, act));
  $("view").scrollTop = state.tab === state.shown ? top : 0;
  state.shown = state.tab;
  if (!held) return; // nobody loses the field they type in, or the place in a list
  const again = [...$("view").querySelectorAll("input, select, button")].find((e) => known(e) === held);
  (again ?? $("view")).focus({ preventScroll: Boolean(again) });
  if (again?.matches("input:not([type=file])")) again.value = typed;
  if (typeof caret === "number") again?.setSelectionRange?.(caret, caret);
}

const known = (e) => e.name || e.id || e.dataset.id || e.dataset.key || e.ariaLabel || e.textContent;

function renderFigures() {
  const { plan } = state;
  $("figures").hidden = !plan?.routes;
  if (!plan?.routes) return;
  $("cost").textContent = views.length(plan.cost, plan.unit);
  const points = plan.history ?? [];
  const first = points[0]?.cost;
  const drop = first ? (100 * (first - plan.cost)) / first : 0;
  $("gain").textContent = Math.abs(drop) >= 0.05 ? `${drop > 0 ? "−" : "+"}${Math.abs(drop).toFixed(1)} %` : "";
  drawCurve(points);
}

function drawCurve(points) {
  const svg = $("curve");
  svg.setAttribute("viewBox", "0 0 100 40");
  if (points.length < 2) return svg.replaceChildren();
  const end = Math.max(points.at(-1).seconds, state.running ? (performance.now() - state.running.began) / 1000 : 0, 0.01);
  const high = points[0].cost, low = points.at(-1).cost, span = high - low || 1;
  const x = (s) => (100 * s) / end, y = (c) => 2 + 36 * (1 - (c - low) / span);
  let line = `M ${x(points[0].seconds)} ${y(high)}`;
  for (let i = 1; i < points.length; i++) line += ` H ${x(points[i].seconds)} V ${y(points[i].cost)}`;
  line += " H 100";
  const path = (d, kind) => {
    const node = document.createElementNS("http://www.w3.org/2000/svg", "path");
    node.setAttribute("d", d);
    node.setAttribute("class", kind);
    node.setAttribute("vector-effect", "non-scaling-stroke");
    return node;
  };
  svg.replaceChildren(path(`${line} V 40 H ${x(points[0].seconds)} Z`, "area"), path(line, "line"));
}

function tell(text) {
  $("news").textContent = text;
  $("toast").textContent = text;
  $("toast").hidden = false;
  clearTimeout(tell.timer);
  tell.timer = setTimeout(() => { $("toast").hidden = true; }, 4500);
}

// Text where it is UTF-8; other bytes go as they are, and the service says what is wrong.
async function textOf(file) {
  const content = await file.arrayBuffer();
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(content);
  } catch {
    return content;
  }
}

function guarded(work) {
  return async (...args) => {
    try {
      return await work(...args);
    } catch (error) {
      if (error.name === "AbortError") return undefined;
      tell(error.message);
      if (!(error instanceof Problem)) console.error(error);
      return undefined;
    }
  };
}

function setInstance(instance) {
  state.instance = instance;
  state.demand = new Map(instance.customers.map((c) => [c.id, c.demand]));
  state.place = new Map();
  map.show(instance);
}

function setPlan(plan) {
  state.plan = plan;
  state.place = new Map();
  plan?.routes?.forEach((route, r) => route.forEach((id, k) => state.place.set(id, [r, k])));
  map.setRoutes(plan?.routes ?? []);
  if (plan) history.replaceState(null, "", `#${plan.id}`);
}

function clearDetails() {
  Object.assign(state, { selected: null, why: null, quote: null, compare: null });
  map.set({ selected: null, fresh: null, moved: new Set(), stage: "tours", seeds: [], hovered: null });
  $("stages").hidden = true;
}

async function remember() {
  const [{ plans }, { cities }] = await Promise.all([call("GET", "/v1/plans", { quiet: true }), call("GET", "/v1/cities", { quiet: true })]);
  Object.assign(state, { recent: plans, cities });
}

// --- acting ---------------------------------------------------------------------

// Whatever brings other orders or another plan onto the page takes its turn first: not
// while one is planned, and an answer that comes after the next one's turn is dropped.
function turn() {
  if (state.running) throw new Problem({ detail: "Stop the planning first" });
  const mine = (state.turn = Symbol("turn"));
  clearTimeout(act.timer);
  act.timer = 0;
  return () => state.turn === mine;
}

// The same for what is only looked at: nobody is taken back to what they left.
function look() {
  const mine = (state.looked = Symbol("look"));
  return () => state.looked === mine;
}

const act = {
  tab(key) {
    look();
    state.tab = key;
    render();
  },
  field(name, value) {
    if (state.running) return;
    state.fields[name] = value;
    clearTimeout(act.timer);
    if (state.orders) act.timer = setTimeout(act.check, 350);
  },

  open: guarded(async (file) => {
    const mine = turn();
    Object.assign(state, { tab: "orders", orders: null });
    const kind = file.name.toLowerCase().endsWith(".xlsx") ? XLSX : file.name.toLowerCase().endsWith(".json") ? "application/json" : "text/csv";
    const content = kind === XLSX ? await file.arrayBuffer() : await textOf(file);
    if (!mine()) return;
    state.orders = { name: file.name, kind, content };
    await act.check();
  }),

  check: guarded(async () => {
    const mine = turn();
    const { kind, content } = state.orders;
    const words = new URLSearchParams(Object.entries(state.fields).filter(([, v]) => v));
    const body = kind !== "application/json" ? content : typeof content === "string" ? `{"instance":${content}}` : new Blob(['{"instance":', content, "}"]);
    const checked = await call("POST", `/v1/validate${words.size && kind !== "application/json" ? `?${words}` : ""}`, { body, type: kind });
    if (!mine()) return;
    state.checked = checked;
    clearDetails();
    state.redo = [];
    setPlan(null);
    if (state.checked.instance) setInstance({ ...state.checked.instance, name: state.orders.name.replace(/\.\w+$/, "") });
    else state.instance = null;
    tell(state.checked.valid ? `${state.checked.customers} orders read` : views.counted(state.checked.problems.length, "problem"));
    render();
  }),

  demo: guarded(async () => {
    const mine = turn();
    const { instance } = await call("GET", "/v1/demo-data");
    if (!mine()) return;
    Object.assign(state, { orders: { name: "Demo city", kind: "application/json", content: JSON.stringify(instance) }, fields: {} });
    await act.check();
  }),

  plan: guarded(async () => {
    if (act.timer) await act.check(); // a figure was typed just now
    if (!state.instance || state.checked?.problems.length) return;
    const options = { time_limit: Number($("seconds").value) };
    await act.start(() => call("POST", "/v1/plans", { body: { instance: state.instance, options } }));
  }),

  // From the press of the button on it runs: what waits for the answer is not pressed twice.
  async start(ask) {
    turn();
    const running = (state.running = { id: null, began: performance.now() });
    render();
    try {
      const plan = await ask();
      if (running.stopped) await call("DELETE", `/v1/plans/${plan.id}`);
      await act.watch(plan, running);
    } finally {
      state.running = null;
      render();
    }
    await remember();
    render();
  },

  async watch(plan, running) {
    clearDetails();
    state.redo = [];
    running.id = plan.id;
    state.tab = "vehicles";
    setPlan(plan);
    render();
    let points = [], latest = null, timer = 0;
    const show = () => {
      timer = 0;
      setPlan({ ...plan, ...latest, history: points, status: "running" });
      render();
    };
    let done = null;
    try {
      await follow(`/v1/plans/${plan.id}/events`, (kind, data) => {
        if (kind === "done") { done = data; return; }
        points = points.concat(data.points);
        timer ||= setTimeout(show, latest ? BETWEEN : 0);
        latest = data;
      });
    } finally {
      clearTimeout(timer);
    }
    if (!done) throw new Problem({ detail: "The service went away; load the page again when it is back" });
    setPlan(done);
    if (done.status === "failed") tell(done.problems[0].message);
    else if (!done.routes) tell("Stopped before there were routes");
    else tell(`${done.status === "stopped" ? "Stopped" : "Done"}: ${views.length(done.cost, done.unit)} on ${done.routes.length} vehicles`);
  },

  stop: guarded(async () => {
    if (!state.running) return;
    state.running.stopped = true;
    if (state.running.id) await call("DELETE", `/v1/plans/${state.running.id}`);
  }),

  load: guarded(async (id, { keep = false } = {}) => {
    const mine = turn();
    const plan = await call("GET", `/v1/plans/${id}`);
    const instance = await call("GET", `/v1/plans/${id}/instance`, { quiet: true });
    if (!mine()) return;
    clearDetails();
    const same = keep && state.instance && state.instance.customers.length === instance.customers.length;
    if (!keep) state.redo = [];
    if (!same) setInstance(instance);
    state.checked = null;
    if (["queued", "running"].includes(plan.status)) { await act.start(() => plan); return; }
    setPlan(plan);
    if (!keep) state.tab = "vehicles";
    render();
  }),

  undo: guarded(async () => {
    if (!state.plan?.parent || state.running) return;
    const { id, parent } = state.plan;
    await act.load(parent, { keep: true });
    if (state.plan.id !== parent) return;
    state.redo.push(id);
    render();
    tell("Undone");
  }),
  redo: guarded(async () => {
    const id = state.redo.at(-1);
    if (!id || state.running) return;
    await act.load(id, { keep: true });
    if (state.plan.id !== id) return;
    state.redo.pop();
    render();
    tell("Done again");
  }),

  select: guarded(async (id) => {
    const mine = look();
    Object.assign(state, { selected: id, quote: null });
    map.set({ selected: id, fresh: null });
    map.centre(id);
    if (state.plan && !state.running && state.place.has(id)) {
      const { plan } = state;
      const why = await call("GET", `/v1/plans/${plan.id}/explain/${encodeURIComponent(id)}`);
      if (!mine() || state.plan !== plan) return;
      Object.assign(state, { why, tab: "why" });
    }
    render();
  }),

  point(id, event) {
    if (id === null) { $("chip").hidden = true; return; }
    const at = state.place.get(id);
    showChip(`${id} · ${at ? `${views.vehicle(state, at[0])}, stop ${at[1] + 1}` : "not planned"} · demand ${state.demand.get(id)}`, event);
  },
  hover(r) { map.set({ hovered: r }); },
  speed(value) {
    if (!(Number(value) > 0)) return;
    state.speed = Number(value);
    render();
  },
  toggle(r) {
    state.opened.has(r) ? state.opened.delete(r) : state.opened.add(r);
    render();
  },

  // --- moving a stop: nothing moves before its price was shown -----------------------
  drag(id) {
    act.dragged = act.prices = act.pointed = null;
    if (!state.plan?.routes || state.running) return;
    const now = (act.dragged = { id });
    call("GET", `/v1/plans/${state.plan.id}/explain/${encodeURIComponent(id)}`).then((why) => {
      if (act.dragged !== now) return;
      act.prices = new Map(why.others.map((o) => [o.route - 1, o]));
      if (act.pointed) act.over(...act.pointed);
    }, () => {});
  },
  over(r, event, card) {
    const own = state.place.get(act.dragged?.id)?.[0];
    if (!act.dragged || r === null || r === undefined || r === own) return act.leave(card);
    act.pointed = [r, event, card];
    const offer = act.prices?.get(r), name = views.vehicle(state, r);
    showChip(offer ? (offer.fits ? `${price(offer)} → ${name}` : `${name} is full`) : "…", event, offer && !offer.fits);
    card?.classList.add("over");
    card?.classList.toggle("full", Boolean(offer && !offer.fits));
    return undefined;
  },
  leave(card) { act.pointed = null; card?.classList.remove("over", "full"); $("chip").hidden = true; },
  dragEnd() { act.dragged = null; act.leave(document.querySelector(".vehicle.over")); },
  dropOn: guarded(async (id, r) => {
    const offer = act.prices?.get(r), mine = act.dragged?.id === id, own = state.place.get(id)?.[0] === r;
    act.dragEnd();
    if (!mine || own || state.running) return;
    if (offer?.fits) { await act.move(id, r); return; }
    tell(offer ? `${views.vehicle(state, r)} has no room for ${id}` : `Not moved: the price of ${id} was not there yet. Choose among the prices, or drag again`);
    if (!offer) await act.select(id);
  }),
  move: guarded(async (id, r) => {
    const mine = turn(), here = look();
    const answer = await call("POST", `/v1/plans/${state.plan.id}/move`, { body: { customer: id, route: r === null ? null : r + 1, apply: true } });
    if (!mine()) return;
    state.redo = [];
    clearDetails();
    setPlan(answer.plan);
    tell(`${id} moved: ${views.price(answer.price, answer.unit)}. Ctrl+Z takes it back.`);
    render();
    if (here()) await act.select(id);
    await remember();
  }),

  // --- a new order -----------------------------------------------------------------
  ground: guarded(async (at) => {
    if (!state.plan?.routes || state.running) return;
    look();
    const round = (v) => Number(v.toPrecision(9));
    const demand = [...state.demand.values()].sort((a, b) => a - b)[Math.floor(state.demand.size / 2)] ?? 1;
    state.quote = { at: map.degrees ? { lat: round(at.lat), lon: round(at.lng) } : { x: round(at.lng), y: round(at.lat) }, demand, id: `new ${state.instance.customers.length + 1}` };
    state.tab = "why";
    map.set({ fresh: at, selected: null });
    render(); // the prices of another place are gone at once
    await act.quote();
  }),
  place: guarded(async (text) => { // for those without a mouse: "lat, lon", "x, y", or a place that is known by name
    const words = text.split(/[,;\s]+/).map(Number);
    const stop = map.places[map.index?.get(text.trim())];
    if (stop) return act.ground(stop.at);
    const { city } = state.fields;
    if (city && state.addresses?.city !== city) state.addresses = { city, ...await call("GET", `/v1/cities/${city}/locations`, { quiet: true }) };
    const address = city && state.addresses.locations.find((p) => p.id === text.trim());
    if (address) return act.ground(map.degrees ? L.latLng(address.lat, address.lon) : L.latLng(address.y, address.x));
    if (words.length !== 2 || words.some(Number.isNaN)) throw new Problem({ detail: `${text} is neither two numbers nor a place of this plan or its city` });
    const at = map.degrees ? L.latLng(words[0], words[1]) : L.latLng(words[1], words[0]);
    map.map.panTo(at);
    return act.ground(at);
  }),
  quote: guarded(async () => {
    const { quote } = state;
    const answer = await call("POST", `/v1/plans/${state.plan.id}/quote`, { body: { ...quote.at, demand: Number(quote.demand) } });
    if (state.quote !== quote) return; // another stop or plan was opened meanwhile
    quote.offers = answer.offers;
    render();
    tell("Prices of the new order");
  }),
  accept: guarded(async (r) => {
    const mine = turn();
    const { at, demand, id } = state.quote;
    const answer = await call("POST", `/v1/plans/${state.plan.id}/quote`, { body: { id, ...at, demand: Number(demand), route: r === null ? null : r + 1, apply: true } });
    const instance = await call("GET", `/v1/plans/${answer.plan.id}/instance`, { quiet: true });
    if (!mine()) return;
    state.redo = [];
    clearDetails();
    setInstance(instance);
    setPlan(answer.plan);
    tell(`${id} is with ${views.vehicle(state, state.place.get(id)[0])}: ${views.price(answer.price, answer.unit)}. Ctrl+Z takes it back.`);
    state.tab = "vehicles";
    render();
    await remember();
  }),
  remove: guarded((id) => act.again({ remove: [id] })),
  again: guarded(async (changes) => {
    const { id } = state.plan;
    const options = { time_limit: Number($("seconds").value) };
    await act.start(async () => {
      const plan = await call("POST", `/v1/plans/${id}/replan`, { body: { ...changes, options } });
      setInstance(await call("GET", `/v1/plans/${plan.id}/instance`, { quiet: true }));
      return plan;
    });
  }),

  compare: guarded(async (id) => {
    const { plan } = state, mine = look();
    const other = id ? await call("GET", `/v1/plans/${id}`) : null;
    if (!mine() || state.plan !== plan) return;
    state.compare = other && difference(plan, other);
    map.set({ moved: new Set(state.compare?.moved.map((m) => m.id)) });
    render();
  }),

  // --- the stages of the network -----------------------------------------------------
  stages: guarded(async () => {
    tell("Asking the network …");
    const { plan } = state;
    const found = await call("GET", `/v1/plans/${plan.id}/stages`);
    if (state.plan !== plan) return;
    map.set({ fresh: null, seeds: found.seeds, shares: new Map(Object.entries(found.shares)), stage: "seeds" });
    const steps = { seeds: "Seeds", clusters: "Clusters", plan: "Transport plan", tours: "Tours" };
    const show = (stage) => {
      map.set({ stage });
      $("stages").replaceChildren(...Object.entries(steps).map(([key, text]) => views.h("button", { "aria-pressed": String(key === stage), onclick: () => show(key), text })),
        views.h("button", { "aria-label": "Close the stages", onclick: () => { $("stages").hidden = true; map.set({ stage: "tours" }); }, text: "×" }));
    };
    show("seeds");
    $("stages").hidden = false;
    tell(`${found.confident} of ${plan.customers} stops are certain for the model “${found.model}”`);
  }),

  export: guarded((format) => download(`/v1/plans/${state.plan.id}/export.${format}`, `plan.${format}`)),
  copy: guarded(async (text) => { await navigator.clipboard.writeText(text); tell("Copied"); }),
};

const price = (offer) => views.price(offer.price, state.plan.unit);

function showChip(text, event, bad = false) {
  const chip = $("chip"), box = $("map-side").getBoundingClientRect();
  chip.textContent = text;
  chip.classList.toggle("bad", Boolean(bad));
  chip.style.left = `${Math.min(event.clientX - box.left, box.width - 20)}px`;
  chip.style.top = `${event.clientY - box.top}px`;
  chip.hidden = false;
}

// --- beginning --------------------------------------------------------------------

const filesOf = (event) => event.dataTransfer?.types.includes("Files"); // a file falls anywhere; stops do not
addEventListener("dragover", (event) => { if (filesOf(event)) { event.preventDefault(); document.body.classList.add("dropping"); } });
addEventListener("dragleave", (event) => { if (!event.relatedTarget) document.body.classList.remove("dropping"); });
addEventListener("drop", (event) => {
  if (!filesOf(event)) return;
  event.preventDefault();
  document.body.classList.remove("dropping");
  if (event.dataTransfer.files[0]) act.open(event.dataTransfer.files[0]);
});
$("plan").addEventListener("click", act.plan);
$("stop").addEventListener("click", act.stop);
$("undo").addEventListener("click", act.undo);
$("redo").addEventListener("click", act.redo);
addEventListener("keydown", (event) => {
  if (!(event.ctrlKey || event.metaKey) || event.target.matches("input")) return;
  const key = event.key.toLowerCase();
  if (key === "z" || key === "y") {
    event.preventDefault();
    (key === "y" || event.shiftKey ? act.redo : act.undo)();
  }
});

globalThis.clusterfirst = { state, map }; // for the curious, and for tests
map.show({ depot: {}, customers: [] });
render();
guarded(async () => { // files may fall before the first answer is there
  state.limits = await call("GET", "/v1/limits", { quiet: true });
  map.basemap = state.limits.basemap;
  map.showStreets();
  await remember();
  for (const option of $("seconds").options) option.disabled = Number(option.value) > state.limits.seconds;
  const id = location.hash.slice(1);
  if (id && !state.turn) await act.load(id);
  else render();
})();
