// Queries: a command of the command language, or SQL. The result is a table.

import { ask } from "./api.js";
import { element, table } from "./dom.js";

const EXAMPLES = {
  command: 'QUERY signup WHERE country = "US" COUNT PER DAY',
  sql: "select topic, count(*) from …",
};

export async function questions(page, signal) {
  const language = element("select", { id: "language" },
    element("option", { value: "command" }, "Command language"), element("option", { value: "sql" }, "SQL"));
  const text = element("textarea", { id: "question", spellcheck: "false", placeholder: EXAMPLES.command });
  const answer = element("div", { "aria-live": "polite" });
  language.addEventListener("change", () => { text.placeholder = EXAMPLES[language.value]; });
  const run = async (event) => {
    event.preventDefault();
    answer.replaceChildren(element("p", { class: "soft" }, "Running …"));
    try {
      answer.replaceChildren(...shown(await sent(language.value, text.value, signal)));
    } catch (problem) {
      answer.replaceChildren();
      throw problem;
    }
  };
  const form = element("form", { onsubmit: run },
    element("p", { class: "row" }, element("label", { for: "language" }, "Language"), language),
    element("label", { for: "question" }, "Query"), text,
    element("p", { class: "row" }, element("button", { class: "main" }, "Run"), element("span", { class: "soft" }, "or Ctrl-Enter")));
  text.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
  });
  page.append(element("h1", {}, "Query"), form, answer);
}

function sent(language, text, signal) {
  const body = language === "sql" ? { sql: text } : { command: text };
  return ask("POST", `/v0/${language}`, body, signal);
}

function shown(found) {
  const names = found.columns.map((column) => column.name);
  const rows = found.rows.map((row) => (Array.isArray(row) ? row : names.map((name) => row[name])));
  const message = element("p", { class: "soft" }, found.message ?? `${rows.length} rows`);
  return names.length ? [message, table(names, rows)] : [message];
}
