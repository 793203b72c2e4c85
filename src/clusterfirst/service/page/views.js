// The panel: each view is a function from the state to elements.

import { colour } from "./map.js";

export function h(tag, props = {}, ...children) {
  const node = document.createElement(tag);
  if (tag === "button") node.type = "button"; // not the submission of the form around it
  for (const [key, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on")) node.addEventListener(key.slice(2).toLowerCase(), value);
    else if (key === "route") node.style.setProperty("--route", colour(value));
    else if (key === "text") node.textContent = value;
    else node.setAttribute(key, value === true ? "" : value);
  }
  node.append(...children.flat(9).filter((c) => c !== null && c !== undefined && c !== false));
  return node;
}

export function length(value, unit, size = Math.abs(value)) { // figures of one table have the digits of its largest
  const digits = size >= 1000 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 3;
  return value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits }) + (unit ? ` ${unit}` : "");
}

export const price = (value, unit, size) => (value >= 0 ? "+" : "−") + length(Math.abs(value), unit, size);
export const counted = (n, thing) => `${plain(n)} ${thing}${n === 1 ? "" : "s"}`;
export const vehicle = (state, r) => state.plan?.vehicles?.[r] ?? `Vehicle ${r + 1}`;
export function when(created) { // how people say it
  const at = new Date(created), days = Math.round((new Date().setHours(0, 0, 0, 0) - new Date(created).setHours(0, 0, 0, 0)) / 864e5);
  const time = at.toLocaleTimeString([], { timeStyle: "short" });
  return days === 0 ? time : days === 1 ? `yesterday ${time}` : `${at.toLocaleDateString([], { dateStyle: "medium" })} ${time}`;
}

const duration = (minutes) => (minutes < 90 ? `${Math.round(minutes)} min` : `${Math.floor(minutes / 60)} h ${String(Math.round(minutes % 60)).padStart(2, "0")}`);
const title = (p) => p.name || "Unnamed plan";
// Warnings are the command line's: here nobody types its options.
const said = (text) => text.replace(/^W\d+:? /, "").replace("give it more by --time-limit", "more seconds, above, give it more");
const plain = (value) => Number(value.toFixed(4)).toLocaleString("en");

export function problemList(problems, warnings = []) {
  return [
    problems.length ? h("ul", { class: "problems", role: "list", "aria-label": "Problems" }, problems.slice(0, 200).map((p) => h("li", {}, h("b", { text: p.line && !p.where.startsWith("line") ? `line ${p.line}, ${p.where}` : p.where }), " ", p.message.split(": ").slice(1).join(": "), " ", h("span", { class: "muted", text: p.code })))) : null,
    warnings.length ? h("ul", { class: "problems warnings", "aria-label": "Warnings" }, warnings.map((w) => h("li", { text: said(w) }))) : null,
  ];
}

// --- orders -------------------------------------------------------------------

export function ordersView(state, act) {
  const { orders } = state, busy = Boolean(state.running);
  const file = h("input", { type: "file", class: "visually-hidden", id: "file", disabled: busy, accept: ".csv,.xlsx,.json,text/csv", onchange: (e) => e.target.files[0] && act.open(e.target.files[0]) });
  const drop = h("label", { class: "drop", for: "file" },
    file,
    iconUpload(),
    h("b", { text: orders?.name ?? "Drop a table of orders" }),
    h("span", { class: "muted", text: orders ? "drop or choose another one" : "CSV or XLSX: id, lat, lon, demand; or click to choose" }));
  drop.addEventListener("dragover", () => drop.classList.add("over")); // what falls is the whole page's
  drop.addEventListener("dragleave", () => drop.classList.remove("over"));
  const field = (label, name, extra = {}) => h("label", { class: "field" }, label, h("input", { name, disabled: busy, value: state.fields[name] ?? "", oninput: (e) => act.field(name, e.target.value), ...extra }));
  return h("div", { class: "start" },
    state.plan ? null : h("h1", { text: "Today’s routes, in a moment." }),
    drop,
    h("div", { class: "row" },
      field("Capacity", "capacity", { inputmode: "decimal", placeholder: "per vehicle" }),
      field("Vehicles", "vehicles", { inputmode: "numeric", placeholder: "any" }),
      field("Depot", "depot", { placeholder: "first row" }),
      state.cities.length > 1 ? h("label", { class: "field" }, "City", h("select", { name: "city", disabled: busy, onchange: (e) => act.field("city", e.target.value) },
        h("option", { value: "", text: "in the table" }), state.cities.map((c) => h("option", { value: c.id, text: c.name || c.id, selected: state.fields.city === c.id })))) : null),
    state.checked ? checkedNote(state) : null,
    h("div", { class: "row" }, h("button", { onclick: act.demo, id: "demo", disabled: busy, text: "Open the demo city" })),
    state.recent.length ? h("div", { class: "stack" }, h("h2", { text: "Recent plans" }),
      h("table", {}, h("tbody", {}, state.recent.slice(0, 8).map((p) => h("tr", {},
        h("td", {}, h("button", { class: "link", disabled: busy, onclick: () => act.load(p.id), "data-key": p.id, text: title(p) })),
        h("td", { class: "muted", text: when(p.created) }),
        h("td", { class: "n", text: p.cost === null ? p.status : length(p.cost, "") })))))) : null);
}

function checkedNote({ checked }) {
  const { problems, warnings = [] } = checked;
  const head = problems.length
    ? h("p", { class: "bad", role: "alert", text: problems.length === 1 ? "One thing to mend before planning:" : `${problems.length} things to mend before planning:` })
    : h("p", {}, h("b", { text: counted(checked.customers, "order") }), ` with a demand of ${plain(checked.demand)} in all: at least ${counted(checked.least_vehicles, "vehicle")} of capacity ${plain(checked.capacity)}. Press Plan.`);
  return h("div", { class: "stack", id: "checked" }, head, problemList(problems, warnings));
}

function iconUpload() {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", "0 0 24 24");
  svg.setAttribute("aria-hidden", "true");
  const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
  path.setAttribute("d", "M12 16V5m0 0L7.500 9.500M12 5l4.500 4.500M4 16v3h16v-3");
  svg.append(path);
  return svg;
}

// --- lists --------------------------------------------------------------------

const stopRow = (state, act, id, r, k, extra = {}) => h("button", {
  class: "stop-row", draggable: "true", "data-id": id, "aria-current": state.selected === id ? "true" : undefined,
  onclick: () => act.select(id), ondragstart: (e) => { e.dataTransfer.setData("text/plain", id); act.drag(id); }, ondragend: () => act.dragEnd(), ...extra,
}, h("span", { class: "at", text: k + 1 }), h("span", { text: id }), h("span", { class: "muted", text: plain(state.demand.get(id) ?? 0) }));

export function vehiclesView(state, act) {
  const { plan } = state;
  if (!plan?.routes) return empty("No routes yet. Press Plan.");
  const total = plan.loads.reduce((a, b) => a + b, 0);
  const most = plan.capacities.reduce((a, b) => a + b, 0);
  return h("div", {},
    h("div", { class: "summary" }, h("span", {}, h("b", { text: plan.routes.length }), " vehicles"), h("span", {}, h("b", { text: plan.customers }), " stops"), h("span", {}, h("b", { text: `${Math.round((100 * total) / most)} %` }), " full"),
      plan.status === "done" || plan.status === "stopped" ? h("button", { class: "link", onclick: act.stages, text: "look inside" }) : null),
    plan.unit === "km" && !plan.minutes ? h("label", { class: "speed muted" }, "Driving times at ", h("input", { name: "speed", type: "number", min: "1", max: "150", value: state.speed, onchange: (e) => act.speed(e.target.value) }), " km/h") : null,
    plan.notes?.length ? h("ul", { class: "problems warnings" }, plan.notes.map((n) => h("li", { text: said(n) }))) : null,
    h("ul", { class: "vehicles", role: "list" }, plan.routes.map((route, r) => vehicleCard(state, act, route, r))));
}

function vehicleCard(state, act, route, r) {
  const { plan } = state;
  const open = state.opened.has(r);
  const room = plan.capacities[r], fill = plan.loads[r] / room;
  const facts = [counted(route.length, "stop"), length(plan.lengths[r], plan.unit)];
  if (plan.minutes) facts.push(duration(plan.minutes[r]));
  else if (plan.unit === "km") facts.push(duration((60 * plan.lengths[r]) / state.speed));
  const bar = h("i");
  bar.style.width = `${Math.min(100, 100 * fill)}%`;
  const card = h("li", { class: "vehicle", route: r, "data-route": r, onmouseenter: () => matchMedia("(hover: hover)").matches && act.hover(r), onmouseleave: () => act.hover(null) },
    h("button", { "aria-expanded": String(open), "data-key": `vehicle ${r}`, onclick: () => act.toggle(r) },
      h("span", { class: "dot" }), h("b", { text: vehicle(state, r) }),
      h("span", { class: "facts", text: facts.join(" · ") }),
      h("span", { class: "bar", role: "img", "aria-label": `load ${plain(plan.loads[r])} of ${plain(room)}` }, bar)),
    open ? h("ol", { class: "stops" }, route.map((id, k) => h("li", {}, stopRow(state, act, id, r, k)))) : null);
  card.addEventListener("dragover", (e) => { e.preventDefault(); act.over(r, e, card); });
  card.addEventListener("dragleave", () => act.leave(card));
  card.addEventListener("drop", (e) => { e.preventDefault(); act.dropOn(e.dataTransfer.getData("text/plain"), r); });
  return card;
}

const AT_ONCE = 60; // rows; the others come when they are scrolled to

export function stopsView(state, act) {
  if (!state.instance) return empty("No orders yet.");
  const rows = state.instance.customers.map((c) => c.id);
  const list = h("div");
  const row = (id) => {
    const [r, k] = state.place.get(id) ?? [null, null];
    return h("tr", {}, h("td", {}, h("button", { class: "link", "data-id": id, onclick: () => act.select(id), text: id })), h("td", {}, r === null ? "–" : named(state, r)), h("td", { class: "n", text: r === null ? "–" : k + 1 }), h("td", { class: "n", text: plain(state.demand.get(id)) }));
  };
  const fill = (word) => {
    const found = rows.filter((id) => id.toLowerCase().includes(word.toLowerCase()));
    const body = h("tbody"), end = h("p", { class: "end" });
    const grow = () => body.append(...found.slice(body.rows.length, body.rows.length + AT_ONCE).map(row));
    new IntersectionObserver(([seen]) => { if (seen.isIntersecting) grow(); }, { rootMargin: "600px" }).observe(end);
    list.replaceChildren(h("p", { class: "muted", text: `${found.length} of ${rows.length} stops` }),
      h("table", {}, h("thead", {}, h("tr", {}, h("th", { text: "Stop" }), h("th", { text: "Vehicle" }), h("th", { class: "n", text: "At" }), h("th", { class: "n", text: "Demand" }))),
        body), end);
    grow();
  };
  fill(state.word);
  return h("div", {}, h("input", { class: "search", type: "search", name: "search", placeholder: "Search a stop", "aria-label": "Search a stop", value: state.word, oninput: (e) => { state.word = e.target.value; fill(e.target.value); } }), list);
}

// --- one stop, one new order ----------------------------------------------------

export function whyView(state, act) {
  if (state.quote) return quoteView(state, act);
  const { why } = state;
  if (!why) {
    return h("div", { class: "stack" }, empty("Click a stop to see why it is where it is, or an empty place on the map to price a new order."), placeForm(state, act));
  }
  const unit = why.unit;
  return h("div", { class: "stack" },
    h("h2", {}, `Stop ${why.customer} `, h("span", { class: "muted", text: `· demand ${plain(why.demand)}` })),
    why.sentences.filter((s) => !s.startsWith("The others")).map((s) => h("p", { text: shorter(s) })), // the table has them
    offerTable(state, [...why.others, ...(state.plan.routes[why.route - 1]?.length > 1 ? [{ route: null, price: why.alone, fits: true }] : [])].sort((a, b) => b.fits - a.fits || a.price - b.price), unit, (r) => act.move(why.customer, r), "Move"),
    h("button", { onclick: () => act.remove(why.customer), text: "Take this order out" }), placeForm(state, act));
}

const shorter = (sentence) => sentence.replace(/(\d+\.\d+)(?= km)/g, (number) => length(Number(number), ""));

const placeForm = (state, act) => (state.plan?.routes ? h("form", { class: "row", onsubmit: (e) => { e.preventDefault(); act.place(e.target.elements.place.value); } },
  h("label", { class: "field" }, "Price a new order at", h("input", { name: "place", placeholder: "51.05, 3.72 or an address known by name", required: "" })),
  h("button", { type: "submit", text: "Price it" })) : null);

const named = (state, r) => [h("span", { class: "dot", route: r ?? undefined }), r === null ? "A new vehicle" : vehicle(state, r)];

function offerTable(state, offers, unit, go, word) {
  const most = Math.max(...offers.map((o) => Math.abs(o.price)));
  return h("table", { id: "offers" }, h("thead", {}, h("tr", {}, h("th", { text: "Vehicle" }), h("th", { class: "n", text: "Price" }), h("th"))),
    h("tbody", {}, offers.slice(0, 60).map((o) => {
      const r = o.route === null ? null : o.route - 1;
      return h("tr", { class: o.fits ? "" : "out" }, h("td", {}, named(state, r)), h("td", { class: "n", text: price(o.price, unit, most) }),
        h("td", { class: "n" }, o.fits ? h("button", { onclick: () => go(r), "aria-label": `${word} to ${r === null ? "a new vehicle" : vehicle(state, r)}`, text: word }) : "full"));
    })));
}

function quoteView(state, act) {
  const { quote } = state;
  const where = "lat" in quote.at ? `${quote.at.lat.toFixed(5)}, ${quote.at.lon.toFixed(5)}` : `${quote.at.x.toFixed(4)}, ${quote.at.y.toFixed(4)}`;
  return h("form", { class: "stack", onsubmit: (e) => { e.preventDefault(); act.quote(); } },
    h("h2", {}, "A new order ", h("span", { class: "muted", text: `at ${where}` })),
    h("div", { class: "row" },
      h("label", { class: "field" }, "Name", h("input", { name: "quote-id", value: quote.id, oninput: (e) => { quote.id = e.target.value; } })),
      h("label", { class: "field" }, "Demand", h("input", { value: quote.demand, inputmode: "decimal", name: "quote-demand", onchange: (e) => { quote.demand = e.target.value; act.quote(); } })),
      h("button", { type: "submit", text: "Price it" })),
    quote.offers ? offerTable(state, quote.offers, state.plan.unit, (r) => act.accept(r), "Take") : null);
}

// --- yesterday, files, curl -----------------------------------------------------

export function compareView(state, act) {
  if (!state.plan?.routes) return empty("Plan first, then compare with another plan.");
  const others = state.recent.filter((p) => p.id !== state.plan.id && p.cost !== null);
  const picked = state.compare;
  return h("div", { class: "stack" },
    h("label", { class: "field" }, "Compare with", h("select", { id: "compare", name: "compare", onchange: (e) => act.compare(e.target.value) }, h("option", { value: "", text: "choose a plan" }),
      others.map((p) => h("option", { value: p.id, selected: picked?.id === p.id, text: [title(p), when(p.created), p.version > 1 ? `version ${p.version}` : "", length(p.cost, "")].filter(Boolean).join(" · ") })))),
    picked ? [
      h("p", {}, h("b", { text: `${picked.moved.length} of ${picked.common}` }), " stops changed vehicle; ", h("b", { text: price(state.plan.cost - picked.cost, state.plan.unit) }), " in length."),
      picked.fresh.length ? h("p", { text: `New: ${picked.fresh.slice(0, 12).join(", ")}${picked.fresh.length > 12 ? " …" : ""}` }) : null,
      picked.gone.length ? h("p", { text: `Gone: ${picked.gone.slice(0, 12).join(", ")}${picked.gone.length > 12 ? " …" : ""}` }) : null,
      picked.moved.length ? h("table", {}, h("thead", {}, h("tr", {}, h("th", { text: "Stop" }), h("th", { text: "Was with" }), h("th", { text: "Is with" }))),
        h("tbody", {}, picked.moved.slice(0, 300).map((m) => h("tr", {}, h("td", {}, h("button", { class: "link", onclick: () => act.select(m.id), text: m.id })), h("td", {}, m.from === null ? "another" : named(state, m.from)), h("td", {}, named(state, m.to)))))) : null,
    ] : h("p", { class: "muted", text: "What moved, what is new, and what it costs." }));
}

const PAPERS = ["sheets.html", "html", "xlsx", "png"];

export function exportView(state, act) {
  if (!state.plan?.routes || !state.limits) return empty("Plan first; then take it along.");
  const words = { csv: "CSV table", xlsx: "Excel", geojson: "GeoJSON", json: "JSON", sol: "CVRPLIB .sol", png: "Picture", svg: "SVG", html: "Map in one file", gpx: "GPX", "sheets.html": "Driver sheets" };
  const files = state.limits.formats.filter((f) => !["geojson", "gpx"].includes(f) || state.plan.unit === "km");
  const group = (title, wanted) => h("div", { class: "exports" }, h("h2", { text: title }), wanted.filter((f) => files.includes(f)).map((f) => h("button", { "data-format": f, onclick: () => act.export(f), text: words[f] ?? f })));
  return h("div", { class: "stack" },
    group("For people", PAPERS),
    h("p", { class: "muted", text: "Driver sheets print one page per vehicle; the map opens in any browser, without this service." }),
    group("For programs", files.filter((f) => !PAPERS.includes(f))),
    h("p", { class: "muted", text: "The same files as on the command line." }));
}

export function curlView(state, act) {
  return h("div", { class: "stack" },
    h("p", { class: "muted" }, "What this page just asked, for your own programs. All of it: ", h("a", { href: "/v1/openapi.json", text: "OpenAPI" }), "."),
    state.journal.map((entry) => h("div", { class: "command" }, h("pre", { text: entry.command, tabindex: "0" }),
      h("div", { class: "row" }, h("button", { onclick: () => act.copy(entry.command), text: "Copy" }), entry.content && typeof entry.content === "string" ? h("button", { onclick: () => act.copy(entry.content), text: "Copy the body" }) : null))));
}

const empty = (text) => h("p", { class: "muted", text });
