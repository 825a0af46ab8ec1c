// Questions to the server. Paths are relative, so the key stays in the page's address alone.

export class Refused extends Error {}

async function answer(response) {
  const data = await response.json().catch(() => ({ error: `status ${response.status}` }));
  if (!response.ok) throw new Refused(data.error);
  return data;
}

export function address(question, parameters = {}) {
  const query = new URLSearchParams(parameters).toString();
  return `api/${question}${query ? `?${query}` : ""}`;
}

export const ask = async (question, parameters) => answer(await fetch(address(question, parameters)));

export async function edit(sign, facts) {
  const headers = { "content-type": "application/json" };
  const body = JSON.stringify({ sign, facts });
  return answer(await fetch("api/edit", { method: "POST", headers, body }));
}

// `onLive`: from now on every epoch is told, now and after each time that the connection was lost.
export function listen(onEpoch, onLive, onLost) {
  const source = new EventSource("api/events");
  source.addEventListener("epoch", (event) => onEpoch(JSON.parse(event.data)));
  source.addEventListener("live", onLive);
  source.onerror = onLost;
}
