// The list of topics, and one topic: its statistics, its newest records, and new ones live.

import { ask, listen, topicPath } from "./api.js";
import { cell, element, moment, numbers, table, asText } from "./dom.js";

const SHOWN_MAX = 200;

export async function topics(page, signal) {
  const prefix = element("input", { id: "prefix", placeholder: "prefix" });
  const list = element("div");
  const show = async () => {
    const query = new URLSearchParams({ page_size: "200", prefix: prefix.value });
    const found = await ask("GET", `/v0/topics?${query}`, undefined, signal);
    const rows = found.topics.map((each) => [link(each.topic), each.count, each.bytes, each.head_seq, each.durable ? "fsync" : ""]);
    list.replaceChildren(table(["Topic", "Records", "Bytes", "Head", ""], rows));
    if (found.next_cursor) list.append(element("p", { class: "soft" }, "There are more: enter a prefix."));
  };
  const form = element("form", { class: "row", onsubmit: (event) => { event.preventDefault(); show(); } },
    element("label", { for: "prefix" }, "Topics with prefix"), prefix, element("button", {}, "Show"));
  page.append(element("h1", {}, "Topics"), form, list);
  await show();
}

function link(topic) {
  return element("a", { href: `#/topics/${encodeURIComponent(topic)}` }, topic);
}

export async function topic(page, signal, name) {
  const state = await ask("GET", topicPath(name), undefined, signal);
  page.append(element("h1", {}, name), facts(state));
  const body = element("tbody");
  const names = ["Seq", "Time", "Key", "Tag", "Node", "Data"];
  const head = element("tr", {}, ...names.map((each) => element("th", { scope: "col" }, each)));
  const note = element("p", { class: "soft", "aria-live": "polite" }, "Waiting for records.");
  page.append(element("h2", {}, "Records, newest first"), note,
    element("div", { class: "scroll" }, element("table", {}, element("thead", {}, head), body)));
  await follow(name, Math.max(0, state.head_seq - 50), signal, note, body);
}

async function follow(name, after, signal, note, body) {
  const wanted = { topics: { [name]: { from_seq: after } }, include_tags: true };
  const session = await ask("POST", "/v0/watch", wanted, signal);
  await listen(session.stream_url, signal, (event, data) => {
    if (event === "record") {
      for (const record of data.records) body.prepend(row(record));
      while (body.rows.length > SHOWN_MAX) body.deleteRow(-1);
      note.textContent = `Live, at ${data.head_seq}.`;
    } else if (event === "tombstone") {
      note.textContent = `Records ${data.gap_from} to ${data.gap_to} are missing (${data.reason}).`;
    } else if (event === "topic-deleted") {
      note.textContent = "The topic was deleted.";
    } else if (event === "error") {
      note.textContent = data.error ?? "The stream has ended.";
    }
  });
  note.textContent = "The stream has ended: load the page again.";
}

function row(record) {
  const data = "data" in record ? record.data : `${record.data_base64} (base64)`;
  const cells = [String(record.$seq), moment(record.$ts), record.$key, record.$tag, record.$node, asText(data)];
  return element("tr", {}, ...cells.map(cell));
}

function facts(state) {
  const queue = state.queue ? { Ready: state.queue.ready, "In flight": state.queue.in_flight } : {};
  return numbers({
    Records: state.count,
    Bytes: state.bytes,
    Head: state.head_seq,
    Earliest: state.earliest_seq,
    Durability: state.config.durability,
    "Last write": moment(state.last_write_ts),
    ...queue,
  });
}
