// SPDX-License-Identifier: BSL-1.0
// The list of versions, the menu and the search of each page. The index of the search loads when the search begins.
const up = document.body.dataset.up;
const field = document.getElementById("search"), results = document.getElementById("results");
let searchIndex = null, loading = false;

function words(text) { return text.toLowerCase().split(/[^\w]+/).filter(Boolean); }

// Names first: an exact name, then names that begin with the words, then names and texts that contain them.
function rank(entry, query, parts) {
  const name = entry[0].toLowerCase(), own = name.replace(/^.*::/, "");
  if (name === query) return 1;
  if (own === query) return 2;
  if (name.startsWith(query)) return 3 + name.length / 1000;
  if (name.includes(query)) return 5 + name.length / 1000;
  if (parts.every(part => name.includes(part))) return 6;
  const text = (entry[0] + " " + entry[1] + " " + entry[3]).toLowerCase();
  return parts.every(part => text.includes(part)) ? 7 : 0;
}

function search(query) {
  query = query.trim().toLowerCase().replace(/^weft::/, "");
  const parts = words(query);
  if (!searchIndex || !query) return [];
  return searchIndex.map(entry => [rank(entry, query, parts.length ? parts : [query]), entry]).filter(each => each[0])
    .sort((a, b) => a[0] - b[0]).slice(0, 30).map(each => each[1]);
}

function excerpt(text, part) {
  const at = Math.max(0, text.toLowerCase().indexOf(part) - 50);
  return (at ? "..." : "") + text.slice(at, at + 140);
}

function show() {
  const found = search(field.value);
  results.replaceChildren(...found.map(([title, kind, to, text]) => {
    const link = document.createElement("a"), name = document.createElement("b"), more = document.createElement("small");
    link.href = up + to;
    name.textContent = title;
    more.textContent = kind + (text ? ": " + excerpt(text, words(field.value)[0] || "") : "");
    link.append(name, more);
    return link;
  }));
  if (!found.length && field.value && searchIndex) results.textContent = "nothing found";
  results.hidden = !field.value;
}

function load() {
  if (loading) return;
  loading = true;
  const script = document.createElement("script");
  script.src = up + "search.js";
  script.onload = show;
  document.head.append(script);
}

field.addEventListener("focus", load);
field.addEventListener("input", () => { load(); show(); });
field.addEventListener("keydown", event => {
  const links = [...results.querySelectorAll("a")], at = links.findIndex(link => link.classList.contains("chosen"));
  if (event.key === "Escape") results.hidden = true;
  if (event.key === "Enter" && links.length) location.href = links[Math.max(at, 0)].href;
  if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    event.preventDefault();
    const next = Math.min(Math.max(at + (event.key === "ArrowDown" ? 1 : -1), 0), links.length - 1);
    links.forEach((link, i) => link.classList.toggle("chosen", i === next));
    if (links[next]) links[next].scrollIntoView({block: "nearest"});
  }
});
document.addEventListener("click", event => { if (!event.target.closest("header")) results.hidden = true; });

const choice = document.getElementById("versions");
if (typeof versions !== "undefined") {
  const shown = choice.options[0].textContent;
  choice.replaceChildren(...versions.map(version => {
    const here = shown.startsWith(version + ".");
    return new Option(here ? shown : version, version, here, here);
  }));
  choice.addEventListener("change", () => { location.href = up + "../" + choice.value + "/index.html"; });
}

for (const link of document.querySelectorAll("nav a"))
  if (link.href === location.href.replace(/#.*/, "")) {
    link.className = "here";
    if (link.closest("details:not(.menu)")) link.closest("details:not(.menu)").open = true;
  }
if (matchMedia("(max-width: 50rem)").matches) document.querySelector("nav .menu").open = false;
