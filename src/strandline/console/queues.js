// The statistics of all queues, with the jobs that would be claimed next.

import { ask } from "./api.js";
import { element, numbers, table, asText } from "./dom.js";

export async function queues(page, signal) {
  page.append(element("h1", {}, "Queues"));
  const found = await ask("GET", "/v0/views", undefined, signal);
  const names = found.views.filter((view) => view.kind === "queue").map((view) => view.topic ?? view.name);
  if (!names.length) page.append(element("p", { class: "soft" }, "There is no queue: create one with PUT /v0/topics/NAME {\"type\": \"queue\"}."));
  for (const name of names) page.append(await queue(name, signal));
}

async function queue(name, signal) {
  const path = `/v0/queues/${encodeURIComponent(name)}`;
  const state = await ask("GET", path, undefined, signal);
  const next = await ask("GET", `${path}/peek?max=10`, undefined, signal);
  const plain = Object.entries(state).filter(([key, value]) => typeof value === "number" && key !== "performance");
  const rows = (next.jobs ?? []).map((job) => [String(job.$seq ?? job.seq), asText(job.data ?? job.data_base64)]);
  const change = async (verb) => {
    await ask("POST", `${path}/${verb}`, {}, signal);
    location.reload();
  };
  return element("section", {},
    element("h2", {}, name),
    numbers(Object.fromEntries(plain.map(([key, value]) => [key.replaceAll("_", " "), value]))),
    element("p", { class: "row" },
      element("button", { onclick: () => change(state.paused ? "resume" : "pause") }, state.paused ? "Resume" : "Pause")),
    rows.length ? table(["Next jobs", "Data"], rows) : element("p", { class: "soft" }, "No job is ready."));
}
