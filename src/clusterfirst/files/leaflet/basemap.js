// A street map behind the routes, from one PMTiles file of vector tiles.
// `source` is an address, or the bytes of the file as an ArrayBuffer.
async function addBasemap(map, source, dark) {
  const inside = { getKey: () => "inside the page", getBytes: async (offset, length) => ({ data: source.slice(offset, offset + length) }) };
  const archive = new pmtiles.PMTiles(source instanceof ArrayBuffer ? inside : source);
  const header = await archive.getHeader();
  return protomapsL.leafletLayer({
    url: archive,
    flavor: dark ? "dark" : "light",
    maxDataZoom: Math.max(1, header.maxZoom),
    bounds: [[header.minLat, header.minLon], [header.maxLat, header.maxLon]],
    attribution: '© <a href="https://openstreetmap.org/copyright">OpenStreetMap</a>',
  }).addTo(map);
}
