// The client of the live door: rows of a view that stay up to date, and edits.
// One module, no dependencies; browsers and node 18 or newer. Types are in deltafix.d.ts.

export class Refused extends Error {
  constructor(answer, status) {
    super(answer.error ?? `status ${status}`);
    Object.assign(this, { name: "Refused", code: answer.code ?? "", line: answer.line, status });
  }
}

const keyOf = (row) => JSON.stringify(row);
const pause = (ms, signal) => new Promise((done) => {
  const timer = setTimeout(done, ms);
  signal.addEventListener("abort", () => { clearTimeout(timer); done(); }, { once: true });
});

// `url`: what `deltafix serve` prints; or without its key, and the key as `token`.
export function connect(url, { token, retry = 250, pageSize = 1000 } = {}) {
  const base = String(url).replace(/\/*$/, "/");
  const allowed = token ? { authorization: `Bearer ${token}` } : {};

  async function call(path, { headers, ...options } = {}) {
    const response = await fetch(base + path, { ...options, headers: { ...allowed, ...headers } });
    if (response.ok) return response;
    const text = await response.text();
    let answer;
    try { answer = JSON.parse(text); } catch { answer = { error: response.status === 404 ? `${text}: no such address, or not its key` : text }; }
    throw new Refused(answer, response.status);
  }

  async function ask(path, parameters = {}, options = {}) {
    const query = new URLSearchParams(parameters).toString();
    return (await call(path + (query ? `?${query}` : ""), options)).json();
  }

  const post = async (path, body, type = "application/json") =>
    (await call(path, { method: "POST", headers: { "content-type": type }, body })).json();

  // Server-sent events, one after another, until the server ends them.
  async function* events(path, id, signal) {
    const headers = { accept: "text/event-stream", ...(id ? { "last-event-id": id } : {}) };
    const response = await call(path, { headers, signal });
    const reader = response.body.getReader();
    const decoder = new TextDecoder();
    let rest = "";
    try {
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return;
        const parts = (rest + decoder.decode(value, { stream: true })).split("\n\n");
        rest = parts.pop();
        for (const part of parts) {
          const event = { id: "", event: "message", data: "" };
          for (const line of part.split("\n")) {
            const at = line.indexOf(": ");
            if (at > 0) event[line.slice(0, at)] = line.slice(at + 2);
          }
          if (event.id || event.data) yield event;
        }
      }
    } finally {
      reader.cancel().catch(() => {}); // it may be broken already
    }
  }

  // Call `onEvent` with each event, over reconnects, until `signal` is aborted or asking is refused.
  // `place` is the id after which to go on; `begin` may set it before each connection, and one
  // is made at once where `onEvent` answers "again".
  async function listen(path, { onEvent, onError = () => {}, begin = () => {}, place = {}, signal }) {
    let wait = retry;
    while (!signal.aborted) {
      try {
        await begin();
        let answer;
        for await (const event of events(path, place.id, signal)) {
          wait = retry;
          if (event.id) place.id = event.id;
          if (event.data) answer = onEvent(event);
          if (answer === "again") break;
        }
        if (answer === "again") continue;
        if (!signal.aborted) onError(new Error("the connection has ended"), true);
      } catch (error) {
        if (signal.aborted) return;
        const again = !(error instanceof Refused) || error.status === 410 || error.status >= 500;
        onError(error, again);
        if (!again) return;
      }
      await pause(wait, signal);
      wait = Math.min(wait * 2, 20 * retry);
    }
  }

  const wanted = (where) => (where ? { where: JSON.stringify(where) } : {});

  // Every row of a view, or of those `where` columns have the values, all as of one epoch.
  async function rows(view, { where, signal } = {}) {
    for (;;) {
      try {
        const found = [];
        let page, after = {};
        do {
          page = await ask(`live/rows/${encodeURIComponent(view)}`, { limit: pageSize, ...after, ...wanted(where) }, { signal });
          for (const row of page.rows) found.push(row); // a spread has a limit
          after = { after: page.next };
        } while (page.next !== null);
        return { rows: found, epoch: page.epoch, id: page.id };
      } catch (error) {
        if (error.status !== 410) throw error; // too old before the last page: from the first again
      }
    }
  }

  function subscribe(view, { where, onSnapshot = () => {}, onDelta = () => {}, onError = () => {} } = {}) {
    const stop = new AbortController();
    const place = {};
    const held = { rows: new Map(), epoch: -1, close: () => stop.abort() };

    function add(row, by) {
      const key = keyOf(row);
      const count = (held.rows.get(key)?.count ?? 0) + by;
      if (count === 0) held.rows.delete(key);
      else held.rows.set(key, { row, count });
    }

    async function begin() {
      if (place.id) return;
      const found = await rows(view, { where, signal: stop.signal });
      held.rows.clear();
      for (const row of found.rows) add(row, 1);
      held.epoch = found.epoch;
      place.id = found.id;
      onSnapshot(held.rows, held.epoch);
    }

    function onEvent({ event, data }) {
      const told = JSON.parse(data);
      if (event === "delta") {
        for (const row of told.removed) add(row, -1);
        for (const row of told.added) add(row, 1);
        held.epoch = told.epoch;
        onDelta(told, held.rows);
      } else if (event === "gone") {
        place.id = undefined; // the rows are read again
        onError(new Refused({ error: told.reason, code: told.code }, 410), true);
        return "again";
      }
      return "";
    }

    const query = where ? `?${new URLSearchParams(wanted(where))}` : "";
    held.ended = listen(`live/changes/${encodeURIComponent(view)}${query}`,
      { onEvent, onError, begin, place, signal: stop.signal });
    return held;
  }

  const lines = (edits) => edits.map((one) => JSON.stringify(one)).join("\n");
  const edit = (edits) => post("live/edits", lines(edits), "application/jsonl");

  return {
    ask, post, listen, rows, subscribe, edit,
    relations: () => ask("live/relations"),
    update: (relation, given) => edit(given.map((row) => ({ update: relation, row }))),
    insert: (relation, given) => edit(given.map((row) => ({ insert: relation, row }))),
    remove: (relation, given) => edit(given.map((row) => ({ delete: relation, row }))),
  };
}
