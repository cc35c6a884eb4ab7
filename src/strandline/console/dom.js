// Creates elements without HTML text: data of the server is always text and never markup.

export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value === true) made.setAttribute(key, "");
    else if (value !== false && value != null) made.setAttribute(key, value);
  }
  made.append(...children.map((child) => (child instanceof Node ? child : String(child))));
  return made;
}

export function table(columns, rows) {
  const head = element("tr", {}, ...columns.map((each) => element("th", { scope: "col" }, each)));
  const body = element("tbody", {}, ...rows.map((cells) => element("tr", {}, ...cells.map(cell))));
  return element("div", { class: "scroll" }, element("table", {}, element("thead", {}, head), body));
}

export function cell(value) {
  if (value instanceof Node) return element("td", {}, value);
  if (typeof value === "number") return element("td", { class: "number" }, value.toLocaleString());
  return element("td", { class: "data" }, asText(value));
}

export function asText(value) {
  if (value == null) return "";
  return typeof value === "string" ? value : JSON.stringify(value);
}

export function numbers(pairs) {
  const shown = Object.entries(pairs).map(([name, value]) =>
    element("div", {}, element("dt", {}, name), element("dd", {}, typeof value === "number" ? value.toLocaleString() : value)));
  return element("dl", { class: "numbers" }, ...shown);
}

export function moment(ms) {
  return ms == null ? "never" : new Date(ms).toISOString().replace("T", " ").replace("Z", "");
}
