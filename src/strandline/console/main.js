// Shows the page of the part of the URL after #. Leaving a page aborts its requests.

import { useToken } from "./api.js";
import { overview } from "./overview.js";
import { questions } from "./ask.js";
import { queues } from "./queues.js";
import { topic, topics } from "./topics.js";

const page = document.getElementById("page");
const problem = document.getElementById("problem");
let leaving = new AbortController();

function chosen(path) {
  if (path.startsWith("#/topics/")) {
    const name = decodeURIComponent(path.slice("#/topics/".length));
    return (page_, signal) => topic(page_, signal, name);
  }
  return { "#/topics": topics, "#/queues": queues, "#/ask": questions }[path] ?? overview;
}

async function show() {
  leaving.abort();
  leaving = new AbortController();
  const { signal } = leaving;
  const path = location.hash || "#/";
  for (const link of document.querySelectorAll("nav a")) {
    const here = link.hash === path || (link.hash !== "#/" && path.startsWith(`${link.hash}/`));
    if (here) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  problem.hidden = true;
  page.replaceChildren();
  try {
    await chosen(path)(page, signal);
  } catch (error) {
    if (!signal.aborted) complain(error);
  }
}

function complain(error) {
  problem.textContent = error.message ?? String(error);
  problem.hidden = false;
}

document.getElementById("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  const field = document.getElementById("token");
  useToken(field.value);
  field.value = "";
  show();
});
window.addEventListener("hashchange", show);
window.addEventListener("unhandledrejection", (event) => complain(event.reason));
show();
