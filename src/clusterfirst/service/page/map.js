// The map: Leaflet moves it, one canvas draws routes, arrows and numbered stops.

const NUMBERED_FROM = 7; // pixels of radius; smaller stops are dots
const REACH = 12; // pixels around the pointer

const scheme = matchMedia("(prefers-color-scheme: dark)");
const colours = { true: [], false: [] };

let hues = []; // of each route; it keeps the one that most of its stops had before

export function colour(route) {
  const known = colours[scheme.matches], hue = hues[route] ?? route;
  return (known[hue] ??= mixed(hue, scheme.matches));
}

function keptHues(routes, before) {
  const pairs = [];
  routes.forEach((stops, r) => {
    const shared = new Map();
    for (const id of stops) if (before.has(id)) shared.set(before.get(id), (shared.get(before.get(id)) ?? 0) + 1);
    shared.forEach((count, hue) => pairs.push([count, r, hue]));
  });
  const found = [], taken = new Set();
  for (const [, r, hue] of pairs.sort((a, b) => b[0] - a[0])) {
    if (found[r] === undefined && !taken.has(hue)) { found[r] = hue; taken.add(hue); }
  }
  let next = 0;
  for (let r = 0; r < routes.length; r++) {
    if (found[r] !== undefined) continue;
    while (taken.has(next)) next++;
    taken.add(next);
    found[r] = next;
  }
  return found;
}

function mixed(route, dark) {
  const hue = (route * 137.508 + 205) % 360; // neighbours in the list differ most
  const light = (dark ? 0.74 : 0.56) + ((route % 3) - 1) * 0.05;
  return `oklch(${light.toFixed(2)} 0.145 ${hue.toFixed(0)})`;
}

const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

const loaded = new Map();
function script(src) {
  if (!loaded.has(src)) {
    loaded.set(src, new Promise((resolve, reject) => {
      const tag = Object.assign(document.createElement("script"), { src, onload: resolve, onerror: reject });
      document.head.append(tag);
    }));
  }
  return loaded.get(src);
}

function routeLayer(view) {
  const Layer = L.Renderer.extend({
    options: { padding: 0.25 },
    _initContainer() {
      this._container = document.createElement("canvas");
      this._pen = this._container.getContext("2d");
    },
    _destroyContainer() { this._container.remove(); delete this._container; },
    _updatePaths() {},
    _update() {
      if (this._map._animatingZoom && this._bounds) return;
      L.Renderer.prototype._update.call(this);
      const size = this._bounds.getSize();
      const ratio = window.devicePixelRatio || 1;
      L.DomUtil.setPosition(this._container, this._bounds.min);
      this._container.width = ratio * size.x;
      this._container.height = ratio * size.y;
      this._container.style.width = `${size.x}px`;
      this._container.style.height = `${size.y}px`;
      this._pen.setTransform(ratio, 0, 0, ratio, 0, 0);
      this._pen.translate(-this._bounds.min.x, -this._bounds.min.y);
      this.draw();
    },
    redraw() {
      if (!this._map || this._asked) return;
      this._asked = requestAnimationFrame(() => {
        this._asked = 0;
        if (this._bounds) { this.clear(); this.draw(); }
      });
    },
    clear() {
      const { min } = this._bounds, size = this._bounds.getSize();
      this._pen.clearRect(min.x, min.y, size.x, size.y);
    },
    draw() { view.draw(this._pen, this._bounds); },
  });
  return new Layer();
}

export class RouteMap {
  constructor(element, on) {
    this.element = element;
    this.on = on;
    this.places = []; // {id, at: LatLng, demand}; the depot first
    this.routes = [];
    this.look = { stage: "tours", hovered: null, selected: null, moved: new Set(), seeds: [], shares: null };
    scheme.addEventListener("change", () => { this.redraw(); this.showStreets(); });
  }

  show(instance) {
    const degrees = instance.depot.lat !== undefined;
    const at = (p) => (degrees ? L.latLng(p.lat, p.lon) : L.latLng(p.y, p.x));
    const drawable = degrees || instance.depot.x !== undefined;
    this.places = drawable ? [instance.depot, ...instance.customers].map((p) => ({ id: p.id, demand: p.demand, at: at(p) })) : [];
    this.index = new Map(this.places.map((p, i) => [p.id, i]));
    this.degrees = degrees;
    this.routes = [];
    if (this.map) this.map.remove();
    this.map = L.map(this.element, {
      crs: degrees ? L.CRS.EPSG3857 : L.CRS.Simple, zoomControl: false,
      minZoom: degrees ? 2 : -24, maxZoom: degrees ? 19 : 32, zoomSnap: 0.25, zoomDelta: 0.75, wheelPxPerZoomLevel: 90,
      keyboard: true, doubleClickZoom: false,
    });
    this.map.attributionControl.setPrefix('<a href="https://leafletjs.com">Leaflet</a>');
    L.control.zoom({ position: "topleft" }).addTo(this.map);
    this.fit();
    this.layer = routeLayer(this).addTo(this.map);
    this.listen();
    this.showStreets();
  }

  // The street map of the service, where it has one; its scripts come only then.
  async showStreets() {
    if (!this.basemap || !this.degrees) return;
    const mine = (this.asked = Symbol("streets"));
    for (const name of ["pmtiles", "protomaps-leaflet", "basemap"]) await script(`/leaflet/${name}.js`);
    this.streets?.remove();
    const { map } = this, found = await addBasemap(map, this.basemap, scheme.matches);
    if (this.asked === mine && map === this.map) this.streets = found;
    else found.remove();
  }

  fit() {
    if (!this.places.length) { this.map.setView([0, 0], 2); return; }
    const bounds = L.latLngBounds(this.places.map((p) => p.at));
    const { x, y } = this.map.getSize(), phone = x < 700, edge = phone ? 24 : 48;
    const room = (left, below) => ({ paddingTopLeft: [left, edge], paddingBottomRight: [edge, below], animate: false });
    this.map.fitBounds(bounds, room(edge, edge));
    const [wide, high] = phone ? [188, 104] : [264, 144]; // the figures lie in the lower left corner: they must hide no stop
    const hidden = this.places.some((p) => { const at = this.map.latLngToContainerPoint(p.at); return at.x < wide && at.y > y - high; });
    if (hidden) this.map.fitBounds(bounds, phone ? room(edge, high) : room(276, edge));
  }

  setRoutes(routes) {
    if (routes.length) {
      hues = keptHues(routes, this.hueOf ?? new Map());
      this.hueOf = new Map(routes.flatMap((stops, r) => stops.map((id) => [id, hues[r]])));
    }
    this.routes = routes.map((route) => route.map((id) => this.index.get(id)));
    this.owner = new Map();
    this.routes.forEach((stops, r) => stops.forEach((row, k) => this.owner.set(row, [r, k])));
    this.redraw();
  }

  set(changes) { Object.assign(this.look, changes); this.redraw(); }
  redraw() { this.layer?.redraw(); }

  centre(id) {
    const place = this.places[this.index.get(id)];
    if (place && !this.map.getBounds().contains(place.at)) this.map.panTo(place.at);
  }

  draw(pen, bounds) {
    const points = this.points = this.places.map((p) => this.map.latLngToLayerPoint(p.at));
    const seen = points.filter((p) => bounds.contains(p)), size = L.bounds(seen.length ? seen : [[0, 0]]).getSize();
    this.radius = Math.max(2.6, Math.min(9, Math.sqrt((size.x * size.y) / Math.max(seen.length, 1)) / 3.2 + (seen.length < 30 ? 9 : 0))); // by the room around a stop
    this.large = this.radius >= NUMBERED_FROM;
    if (this.look.stage === "tours") this.drawRoutes(pen, points);
    if (this.look.stage === "clusters" || this.look.stage === "plan") this.drawStars(pen, points);
    this.drawStops(pen, points, bounds);
    if (this.look.stage !== "tours") this.drawSeeds(pen, points);
    this.drawDepot(pen, points[0]);
    if (this.look.fresh) this.drawFresh(pen, this.map.latLngToLayerPoint(this.look.fresh));
  }

  faint(r) { return this.look.hovered !== null && this.look.hovered !== r; }

  drawRoutes(pen, points) {
    pen.lineJoin = pen.lineCap = "round";
    this.routes.forEach((stops, r) => {
      if (!stops.length) return;
      pen.strokeStyle = pen.fillStyle = colour(r);
      pen.globalAlpha = this.faint(r) ? 0.12 : 0.9;
      pen.lineWidth = this.look.hovered === r ? 3.5 : 2.2;
      pen.beginPath();
      stops.forEach((row, k) => pen[k ? "lineTo" : "moveTo"](points[row].x, points[row].y));
      pen.stroke();
      // Ways from and to the depot say little and cross everything: thin.
      pen.globalAlpha *= this.look.hovered === r ? 0.8 : 0.3;
      pen.lineWidth = 1.3;
      pen.beginPath();
      for (const row of [stops[0], stops.at(-1)]) {
        pen.moveTo(points[0].x, points[0].y);
        pen.lineTo(points[row].x, points[row].y);
      }
      pen.stroke();
      pen.globalAlpha = this.faint(r) ? 0.12 : 0.9;
      this.drawArrows(pen, points, stops);
    });
    pen.globalAlpha = 1;
  }

  drawArrows(pen, points, stops) {
    const room = this.large ? 44 : 30;
    for (let k = 0; k + 1 < stops.length; k++) {
      const a = points[stops[k]], b = points[stops[k + 1]];
      const dx = b.x - a.x, dy = b.y - a.y, length = Math.hypot(dx, dy);
      if (length < room) continue;
      const ux = dx / length, uy = dy / length, x = a.x + dx / 2, y = a.y + dy / 2;
      pen.beginPath();
      pen.moveTo(x + 5 * ux, y + 5 * uy);
      pen.lineTo(x - 4 * ux - 4 * uy, y - 4 * uy + 4 * ux);
      pen.lineTo(x - 4 * ux + 4 * uy, y - 4 * uy - 4 * ux);
      pen.fill();
    }
  }

  drawStars(pen, points) {
    this.routes.forEach((stops, r) => {
      const seed = this.index.get(this.look.seeds[r]);
      if (seed === undefined) return;
      pen.strokeStyle = colour(r);
      stops.forEach((row) => {
        const share = this.look.shares?.get(this.places[row].id) ?? 1;
        pen.globalAlpha = this.look.stage === "plan" ? 0.1 + 0.8 * share : 0.45;
        pen.lineWidth = this.look.stage === "plan" ? 0.5 + 2.2 * share : 1.2;
        pen.beginPath();
        pen.moveTo(points[seed].x, points[seed].y);
        pen.lineTo(points[row].x, points[row].y);
        pen.stroke();
      });
    });
    pen.globalAlpha = 1;
  }

  drawStops(pen, points, bounds) {
    const grey = this.look.stage === "seeds";
    const loose = [];
    for (let row = 1; row < points.length; row++) if (!this.owner?.has(row)) loose.push(row);
    this.drawDots(pen, points, bounds, loose, css("--muted"));
    this.routes.forEach((stops, r) => {
      pen.globalAlpha = this.faint(r) ? 0.25 : 1;
      if (grey || this.look.stage !== "tours" || !this.large) this.drawDots(pen, points, bounds, stops, grey ? css("--muted") : colour(r));
      else this.drawNumbers(pen, points, bounds, stops, colour(r));
    });
    pen.globalAlpha = 1;
    this.drawRings(pen, points);
  }

  drawDots(pen, points, bounds, rows, fill) { // all of a colour in one path: thousands in a frame
    const radius = Math.min(this.radius, this.look.stage === "tours" ? 6 : 4);
    pen.fillStyle = fill;
    pen.beginPath();
    for (const row of rows) {
      const p = points[row];
      if (!bounds.contains(p)) continue;
      pen.moveTo(p.x + radius, p.y);
      pen.arc(p.x, p.y, radius, 0, 7);
    }
    pen.fill();
  }

  drawNumbers(pen, points, bounds, rows, fill) {
    const { radius } = this, paper = css("--paper");
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    pen.lineWidth = 1.5;
    pen.strokeStyle = paper;
    rows.forEach((row, k) => {
      const p = points[row];
      if (!bounds.contains(p)) return;
      pen.fillStyle = fill;
      pen.beginPath();
      pen.arc(p.x, p.y, radius, 0, 7);
      pen.fill();
      pen.stroke();
      pen.fillStyle = paper;
      pen.font = `600 ${(k + 1 > 99 ? 0.9 : 1.15) * radius}px system-ui, sans-serif`;
      pen.fillText(k + 1, p.x, p.y + 0.5);
    });
  }

  drawRings(pen, points) {
    const marked = [...this.look.moved, this.look.selected].map((id) => points[this.index?.get(id)]).filter(Boolean);
    pen.lineWidth = 2.5;
    pen.strokeStyle = css("--accent");
    for (const p of marked) {
      pen.beginPath();
      pen.arc(p.x, p.y, this.radius + 4, 0, 7);
      pen.stroke();
    }
  }

  drawSeeds(pen, points) {
    this.look.seeds.forEach((id, r) => {
      const p = points[this.index.get(id)];
      if (!p) return;
      pen.fillStyle = colour(r);
      pen.strokeStyle = css("--paper");
      pen.lineWidth = 2;
      pen.beginPath();
      pen.moveTo(p.x, p.y - 10); pen.lineTo(p.x + 10, p.y); pen.lineTo(p.x, p.y + 10); pen.lineTo(p.x - 10, p.y);
      pen.closePath();
      pen.fill();
      pen.stroke();
    });
  }

  drawDepot(pen, p) {
    if (!p) return;
    pen.fillStyle = css("--ink");
    pen.strokeStyle = css("--paper");
    pen.lineWidth = 2;
    pen.beginPath();
    pen.moveTo(p.x - 9, p.y + 8); pen.lineTo(p.x - 9, p.y - 2); pen.lineTo(p.x, p.y - 10);
    pen.lineTo(p.x + 9, p.y - 2); pen.lineTo(p.x + 9, p.y + 8);
    pen.closePath();
    pen.fill();
    pen.stroke();
  }

  drawFresh(pen, p) {
    pen.strokeStyle = css("--accent");
    pen.lineWidth = 2.5;
    pen.beginPath();
    pen.arc(p.x, p.y, 8, 0, 7);
    pen.moveTo(p.x - 4, p.y); pen.lineTo(p.x + 4, p.y);
    pen.moveTo(p.x, p.y - 4); pen.lineTo(p.x, p.y + 4);
    pen.stroke();
  }

  // --- pointing ---------------------------------------------------------------

  nearest(event, other = null) {
    const here = this.map.mouseEventToLayerPoint(event);
    let best = null, least = other === null ? REACH : 70;
    this.points?.forEach((p, row) => {
      if (!row || (other !== null && (this.owner.get(row)?.[0] ?? other) === other)) return;
      const away = p.distanceTo(here);
      if (away < least) { least = away; best = row; }
    });
    return best;
  }

  listen() {
    const box = this.map.getContainer();
    const end = new AbortController();
    this.listening?.abort();
    this.listening = end;
    const listen = (kind, act) => box.addEventListener(kind, act, { signal: end.signal, capture: true });
    listen("pointerdown", (event) => this.grab(event));
    listen("pointermove", (event) => this.move(event));
    listen("pointerup", (event) => this.drop(event));
    listen("pointercancel", () => this.letGo());
    listen("pointerleave", () => { if (!this.dragged) this.on.point(null); });
    addEventListener("keydown", (event) => { if (event.key === "Escape") this.letGo(); }, { signal: end.signal });
    this.map.on("click", (event) => {
      if (this.justDropped) return;
      const row = this.nearest(event.originalEvent);
      if (row !== null) this.on.select(this.places[row].id);
      else this.on.ground(event.latlng);
    });
    new ResizeObserver(() => this.map?.invalidateSize({ animate: false })).observe(box);
  }

  grab(event) {
    this.justDropped = false;
    const row = event.button ? null : this.nearest(event);
    if (row === null || !this.owner?.has(row) || event.target.closest(".leaflet-control")) return;
    this.pressed = { row, x: event.clientX, y: event.clientY };
    this.map.dragging.disable();
  }

  move(event) {
    if (this.pressed && !this.dragged && Math.hypot(event.clientX - this.pressed.x, event.clientY - this.pressed.y) > 6) {
      this.dragged = this.pressed;
      this.element.classList.add("grabbing");
      this.line = L.polyline([this.places[this.dragged.row].at], { dashArray: "4 5", weight: 2, color: css("--ink"), interactive: false }).addTo(this.map);
      this.on.drag(this.places[this.dragged.row].id);
    }
    if (!this.dragged) {
      const row = this.nearest(event);
      this.element.classList.toggle("pointing", row !== null);
      return this.on.point(row === null ? null : this.places[row].id, event);
    }
    this.line.setLatLngs([this.places[this.dragged.row].at, this.map.mouseEventToLatLng(event)]);
    const near = this.nearest(event, this.owner.get(this.dragged.row)[0]);
    this.target = near === null ? null : this.owner.get(near)[0];
    if (this.look.hovered !== this.target) this.set({ hovered: this.target });
    this.on.over(this.target, event);
  }

  drop() {
    const { dragged, target } = this;
    const id = dragged && this.places[dragged.row].id;
    this.letGo();
    if (dragged && target !== null && target !== undefined) this.on.drop(id, target);
  }

  letGo() {
    this.map?.dragging.enable();
    if (this.dragged) { this.justDropped = true; this.on.over(null); this.set({ hovered: null }); }
    this.line?.remove();
    this.element.classList.remove("grabbing");
    this.pressed = this.dragged = this.line = null;
    this.target = null;
  }
}
