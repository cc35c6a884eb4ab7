// The state of the server and its store, updated every two seconds.

import { ask } from "./api.js";
import { element, numbers, table } from "./dom.js";

const EVERY_MS = 2000;

export async function overview(page, signal) {
  const shown = element("div");
  page.append(element("h1", {}, "Overview"), shown);
  while (!signal.aborted) {
    const [health, metrics, store] = await Promise.all([
      ask("GET", "/v0/health", undefined, signal),
      ask("GET", "/v0/metrics", undefined, signal),
      ask("GET", "/v0/store", undefined, signal),
    ]);
    shown.replaceChildren(summary(health, metrics, store), ...complaints(store), jobs(store));
    await new Promise((go) => setTimeout(go, EVERY_MS));
  }
}

function summary(health, metrics, store) {
  const of = (name) => metrics[`strandline_${name}`] ?? "–";
  return numbers({
    Store: store.status,
    Version: health.version,
    Uptime: span(health.uptime_ms),
    Topics: of("topics"),
    "Live records": of("records_live"),
    "Live bytes": of("bytes_live"),
    Routers: of("routers"),
    "Jobs in flight": of("queue_leases_in_flight"),
    "SSE streams": of("sse_connections"),
    "Watch sessions": of("watch_sessions"),
  });
}

function complaints(store) {
  const found = store.complaints ?? store.problems ?? [];
  if (!found.length) return [];
  return [element("h2", {}, "Problems"), element("ul", {}, ...found.map((each) => element("li", {}, each)))];
}

function jobs(store) {
  const rows = (store.jobs ?? []).map((job) => [job.name, job.alive ? "alive" : "dead", job.runs, job.last_error]);
  return element("section", {}, element("h2", {}, "Background jobs"), table(["Job", "State", "Runs", "Last error"], rows));
}

function span(ms) {
  const seconds = Math.floor(ms / 1000);
  const hours = Math.floor(seconds / 3600);
  return hours ? `${hours} h ${Math.floor((seconds % 3600) / 60)} min` : `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
}
