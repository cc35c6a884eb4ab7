// A client of the server's public API. The token is kept in memory: the user has to enter it again
// after a reload, and pages of other sites cannot use it.

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
  const message = found.error?.message ?? `the server returned ${answer.status}`;
  const hint = answer.status === 401 ? " (enter a token above)" : "";
  throw new Problem(message + hint);
}

export async function ask(method, path, body, signal) {
  return (await send(method, path, body, {}, signal)).json();
}

export function topicPath(topic, rest = "") {
  return `/v0/topics/${encodeURIComponent(topic)}${rest}`;
}

// Calls onEvent for every event of a server-sent stream until it ends or is aborted.
export async function listen(path, signal, onEvent) {
  const answer = await send("GET", path, undefined, { accept: "text/event-stream" }, signal);
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const frames = (rest + value).split("\n\n");
    rest = frames.pop();
    for (const frame of frames) dispatch(frame, onEvent);
  }
}

function dispatch(frame, onEvent) {
  let name = "message";
  const data = [];
  for (const line of frame.split("\n")) {
    if (line.startsWith("event:")) name = line.slice(6).trim();
    else if (line.startsWith("data:")) data.push(line.slice(5).trimStart());
  }
  if (data.length) onEvent(name, JSON.parse(data.join("\n")));
}
