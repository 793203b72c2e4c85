// Calls to the service; every one can be read again as a curl command.

export const journal = [];
const KEY = "clusterfirst-token";

export class Problem extends Error {
  constructor(document) {
    super(document.detail || "the service did not answer");
    this.code = document.code;
    this.problems = document.problems || [];
  }
}

async function token() {
  const dialog = document.getElementById("ask-token");
  dialog.showModal();
  await new Promise((done) => dialog.addEventListener("close", done, { once: true }));
  sessionStorage.setItem(KEY, document.getElementById("token").value.trim());
}

async function send(method, path, { body, type, headers = {}, signal } = {}) {
  const all = { ...headers };
  if (body !== undefined) all["Content-Type"] = type || "application/json";
  const known = sessionStorage.getItem(KEY);
  if (known) all.Authorization = `Bearer ${known}`;
  const content = type || body === undefined ? body : JSON.stringify(body);
  let answer;
  try {
    answer = await fetch(path, { method, headers: all, body: content, signal });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem({ detail: "The service cannot be reached; is it running?" });
  }
  if (answer.status === 401) {
    await token();
    return send(method, path, { body, type, headers, signal });
  }
  if (!answer.ok) throw new Problem(await answer.json().catch(() => ({})));
  return answer;
}

function note(method, path, body, type) {
  const words = [`curl -X ${method} '${location.origin}${path}'`];
  if (sessionStorage.getItem(KEY)) words.push("-H 'Authorization: Bearer TOKEN'");
  if (body !== undefined) {
    words.push(`-H 'Content-Type: ${type || "application/json"}'`);
    const text = type ? "" : JSON.stringify(body);
    const short = text && text.length < 400;
    words.push(short ? `--data '${text.replaceAll("'", "'\\''")}'` : `--data-binary @body${type?.includes("csv") ? ".csv" : type?.includes("sheet") ? ".xlsx" : ".json"}`);
  }
  const content = body === undefined ? null : type ? body : JSON.stringify(body, null, 1);
  journal.unshift({ command: words.join(" \\\n  "), content });
  journal.length = Math.min(journal.length, 12);
}

export async function call(method, path, options = {}) {
  if (!options.quiet) note(method, path, options.body, options.type);
  return (await send(method, path, options)).json();
}

export async function download(path, name) {
  note("GET", path);
  const url = URL.createObjectURL(await (await send("GET", path)).blob());
  const link = Object.assign(document.createElement("a"), { href: url, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

// Server-sent events by fetch, because EventSource cannot send a token.
export async function follow(path, onEvent, signal) {
  note("GET", path);
  const answer = await send("GET", path, { signal });
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read().catch(() => ({ done: true })); // the caller misses its end
    if (done) return;
    rest += value;
    const blocks = rest.split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      const kind = /^event: (.*)$/m.exec(block);
      const data = /^data: (.*)$/m.exec(block);
      if (kind && data) onEvent(kind[1], JSON.parse(data[1]));
    }
  }
}
