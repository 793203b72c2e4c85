// The map of a plan: everything on two canvases, so that thousands of stops pan fluently.
(function () {
  "use strict";
  var plan = JSON.parse(document.getElementById("plan").textContent);
  var LINE_ARROW = 34, NUMBER_FROM = 7, MOST_FOUND = 12;

  // A stop is a circle with its number inside, once there is room for it.
  var Stop = L.CircleMarker.extend({
    _updatePath: function () {
      this._renderer._updateCircle(this);
      var ctx = this._renderer._ctx, at = this._point, text = this.options.number;
      if (!this._renderer._drawing || this._empty() || !text || this._radius < NUMBER_FROM) return;
      ctx.globalAlpha = 1;
      ctx.fillStyle = this.options.ink;
      ctx.font = "600 " + (text.length > 2 ? 8 : 10) + "px system-ui, sans-serif";
      ctx.textAlign = "center";
      ctx.textBaseline = "middle";
      ctx.fillText(text, at.x, at.y + 0.5);
    }
  });

  // A route is a line with an arrow in the middle of each leg that is long enough.
  var Way = L.Polyline.extend({
    _updatePath: function () {
      this._renderer._updatePoly(this);
      var ctx = this._renderer._ctx;
      if (!this._renderer._drawing) return;
      ctx.globalAlpha = this.options.opacity;
      ctx.fillStyle = this.options.color;
      this._parts.forEach(function (part) {
        for (var i = 1; i < part.length; i++) arrow(ctx, part[i - 1], part[i]);
      });
    }
  });

  function arrow(ctx, a, b) {
    var dx = b.x - a.x, dy = b.y - a.y, long = Math.hypot(dx, dy);
    if (long < LINE_ARROW) return;
    var ux = dx / long, uy = dy / long, x = (a.x + b.x) / 2, y = (a.y + b.y) / 2;
    ctx.beginPath();
    ctx.moveTo(x + 6 * ux, y + 6 * uy);
    ctx.lineTo(x - 4 * ux - 4 * uy, y - 4 * uy + 4 * ux);
    ctx.lineTo(x - 4 * ux + 4 * uy, y - 4 * uy - 4 * ux);
    ctx.fill();
  }

  var map = L.map("map", {
    crs: plan.degrees ? L.CRS.EPSG3857 : L.CRS.Simple,
    preferCanvas: true, zoomSnap: 0.25, minZoom: plan.degrees ? 1 : -12, maxZoom: plan.degrees ? 20 : 14,
    attributionControl: false
  });
  var lines = L.canvas({ padding: 0.3 }), dots = L.canvas({ padding: 0.3, tolerance: 4, pane: "markerPane" });
  if (plan.degrees) L.control.scale({ imperial: false }).addTo(map);
  var streets = document.getElementById("streets");
  if (streets) {
    L.control.attribution({ prefix: false }).addTo(map);
    addBasemap(map, Uint8Array.from(atob(streets.textContent), function (c) { return c.charCodeAt(0); }).buffer, false);
  }

  function tell(stop) {
    var table = document.createElement("table");
    table.className = "stop";
    Object.keys(stop.facts).forEach(function (key) {
      var row = table.insertRow();
      row.insertCell().textContent = key;
      row.insertCell().textContent = stop.facts[key];
    });
    return table;
  }

  var everything = L.latLngBounds([plan.depot.at]);
  var markers = [];
  function mark(stop, colour, group) {
    var circle = new Stop(stop.at, {
      renderer: dots, radius: 4, number: stop.number ? String(stop.number) : "",
      color: stop.moved ? "#000" : "#fff", weight: stop.moved ? 2 : 1, fillColor: colour, fillOpacity: 1,
      ink: light(colour) ? "#22262e" : "#fff"
    }).bindPopup(function () { return tell(stop); });
    circle.addTo(group);
    everything.extend(stop.at);
    markers.push({ stop: stop, circle: circle, group: group });
  }
  function light(colour) {
    var v = parseInt(colour.slice(1), 16);
    return 0.299 * (v >> 16) + 0.587 * ((v >> 8) & 255) + 0.114 * (v & 255) > 150;
  }

  var list = document.getElementById("routes"), boxes = [];
  plan.routes.forEach(function (route) {
    var group = L.layerGroup();
    var ends = route.stops.map(function (s) { return s.at; });
    // Legs to and from the depot are faint: near the depot they only hide the rest.
    [[plan.depot.at, ends[0]], [ends[ends.length - 1], plan.depot.at]].forEach(function (leg) {
      if (leg[0] && leg[1]) new Way(leg, { renderer: lines, color: route.colour, weight: 1.2, opacity: 0.45, smoothFactor: 0, interactive: false }).addTo(group);
    });
    new Way(ends, { renderer: lines, color: route.colour, weight: 2.5, opacity: 0.9, smoothFactor: 0, dashArray: route.dash, interactive: false }).addTo(group);
    route.stops.forEach(function (stop) { mark(stop, route.colour, group); });
    group.addTo(map);
    list.appendChild(entry(route, group));
  });

  function entry(route, group) {
    var item = document.createElement("li"), label = document.createElement("label");
    item.className = "route";
    var box = document.createElement("input"), swatch = document.createElement("span"), name = document.createElement("b");
    box.type = "checkbox"; box.checked = true;
    box.onchange = function () { if (box.checked) group.addTo(map); else group.remove(); };
    boxes.push(box);
    swatch.className = "swatch"; swatch.style.background = route.colour;
    name.textContent = route.name;
    label.append(box, swatch, name, document.createTextNode(route.stops.length + " stops"));
    var facts = document.createElement("div"), bar = document.createElement("div"), fill = document.createElement("i");
    facts.className = "facts"; bar.className = "bar";
    fill.style.width = Math.min(100, 100 * route.load / route.capacity) + "%"; fill.style.background = route.colour;
    bar.append(fill);
    var load = document.createElement("span");
    load.textContent = route.load + " / " + route.capacity;
    if (route.load > route.capacity) load.className = "over";
    facts.append(load, bar, document.createTextNode(route.length));
    facts.onclick = function () {
      map.fitBounds(L.latLngBounds(route.stops.map(function (s) { return s.at; }).concat([plan.depot.at])), { padding: [30, 30] });
    };
    item.append(label, facts);
    return item;
  }

  if (plan.unserved.length) {
    var stay = L.layerGroup().addTo(map);
    plan.unserved.forEach(function (stop) { mark(stop, "#ffffff", stay); });
    markers.forEach(function (m) { if (m.group === stay) m.circle.setStyle({ color: "#c01f1f", weight: 2.5 }); });
    var head = document.createElement("li");
    head.className = "over";
    head.textContent = plan.unserved.length + " orders are not served (white, red rim)";
    list.appendChild(head);
  }
  L.marker(plan.depot.at, {
    icon: L.divIcon({ className: "", html: '<svg width="20" height="20"><rect x="2" y="2" width="16" height="16" fill="#22262e" stroke="#fff" stroke-width="2.5"/></svg>', iconSize: [20, 20], iconAnchor: [10, 10] })
  }).bindPopup(plan.depot.name).addTo(map);

  function toggle(on) { boxes.forEach(function (box) { if (box.checked !== on) { box.checked = on; box.onchange(); } }); }
  document.getElementById("show").onclick = function () { toggle(true); };
  document.getElementById("hide").onclick = function () { toggle(false); };

  var search = document.getElementById("search"), found = document.getElementById("found");
  search.oninput = function () {
    var word = search.value.trim().toLowerCase();
    found.replaceChildren();
    if (!word) return;
    markers.filter(function (m) { return m.stop.id.toLowerCase().includes(word); }).slice(0, MOST_FOUND).forEach(function (m) {
      var item = document.createElement("li");
      item.textContent = m.stop.id + (m.stop.number ? "  (" + m.stop.route + ", stop " + m.stop.number + ")" : "  (not served)");
      item.onclick = function () {
        if (!map.hasLayer(m.group)) m.group.addTo(map);
        map.setView(m.stop.at, Math.max(map.getZoom(), close));
        m.circle.openPopup();
      };
      found.appendChild(item);
    });
  };
  search.onkeydown = function (event) { if (event.key === "Enter" && found.firstChild) found.firstChild.click(); };

  // Circles as large as the distances between stops allow at this zoom.
  var close = 0;
  function resize() {
    var near = plan.spacing * Math.pow(2, map.getZoom()) * plan.scale;
    var radius = Math.max(2.5, Math.min(10, 0.5 * near));
    markers.forEach(function (m) { m.circle.setRadius(radius); });
  }
  map.on("zoomend", resize);
  map.fitBounds(everything, { padding: [24, 24] });
  close = Math.min(map.getMaxZoom(), map.getZoom() + 3);
  resize();
  document.body.dataset.ready = String(markers.length);
})();
