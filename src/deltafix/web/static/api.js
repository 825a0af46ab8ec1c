// The page's questions, by the client that applications have. Its own address has the key.

import { connect } from "./deltafix.js";

const server = connect(new URL(".", location.href));

export function address(question, parameters = {}) {
  const query = new URLSearchParams(parameters).toString();
  return `api/${question}${query ? `?${query}` : ""}`;
}

export const ask = (question, parameters) => server.ask(address(question, parameters));
export const edit = (sign, facts) => server.post("api/edit", JSON.stringify({ sign, facts }));

// `onLive`: from now on every epoch is told, now and after each time that the connection was lost;
// those in between come after it. `onGone`: they are too many, and only what there is now can be asked.
// `onFiles`: the problems of the files that are followed, and the last edit of the program.
export function listen({ onEpoch, onLive, onGone, onFiles, onLost }) {
  const place = {};
  const heard = {
    ready: onLive,
    epoch: onEpoch,
    files: onFiles,
    gone: () => { place.id = undefined; onGone(); return "again"; },
  };
  const onEvent = ({ event, data }) => heard[event](JSON.parse(data));
  server.listen("api/events", { onEvent, onError: onLost, place, signal: new AbortController().signal });
}
