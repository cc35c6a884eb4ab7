// The server's own API, as everybody else uses it. The token stays in memory: it is asked for again
// after a reload, and no page of another site can make use of it.

let token = "";

export function useToken(text) {
  token = text.trim();
}

export class Problem extends Error {}

async function send(method, path, body, headers, signal) {
  const all = { accept: "application/json", ...headers };
  if (token) all.authorization = `Bearer ${token}`;
  if (body !== undefined) all["content-type"] = "application/json";
  const text = body === undefined ? undefined : JSON.stringify(body);
  const answer = await fetch(path, { method, headers: all, body: text, signal });
  if (answer.ok) return answer;
  const found = await answer.json().catch(() => ({}));
  const message = found.error?.message ?? `the server answered ${answer.status}`;
  const hint = answer.status === 401 ? " (give a token above)" : "";
  throw new Problem(message + hint);
}

export async function ask(method, path, body, signal) {
  return (await send(method, path, body, {}, signal)).json();
}

export function topicPath(topic, rest = "") {
  return `/v0/topics/${encodeURIComponent(topic)}${rest}`;
}

// Calls back with every event of a server-sent stream until it ends or is given up.
export async function listen(path, signal, onEvent) {
  const answer = await send("GET", path, undefined, { accept: "text/event-stream" }, signal);
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const frames = (rest + value).split("\n\n");
    rest = frames.pop();
    for (const frame of frames) tell(frame, onEvent);
  }
}

function tell(frame, onEvent) {
  let name = "message";
  const data = [];
  for (const line of frame.split("\n")) {
    if (line.startsWith("event:")) name = line.slice(6).trim();
    else if (line.startsWith("data:")) data.push(line.slice(5).trimStart());
  }
  if (data.length) onEvent(name, JSON.parse(data.join("\n")));
}
