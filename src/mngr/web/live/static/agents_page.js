// The page with all agents and the page with all runs.

import { follow, showAges, showNotice } from "./connection.js";

const MAX_NEWS = 5;
const cards = new Map(); // elements by the id of their agent
const sections = new Map(); // elements by the key of their group

function parseElement(html) {
  const template = document.createElement("template");
  template.innerHTML = html;
  return template.content.firstElementChild;
}

// Replace a card. The focus stays on the same button.
function replaceCard(id, html) {
  const card = parseElement(html);
  const old = cards.get(id);
  cards.set(id, card);
  if (!old) return;
  const focused = old.contains(document.activeElement) ? document.activeElement : null;
  old.replaceWith(card);
  if (focused) {
    const selector = focused.dataset.action ? `[data-action="${focused.dataset.action}"]` : "a";
    card.querySelector(selector)?.focus();
  }
}

function getSection(key) {
  if (!sections.has(key)) {
    const section = document.createElement("section");
    section.className = `group group-${key}`;
    section.append(document.createElement("h2"));
    sections.set(key, section);
  }
  return sections.get(key);
}

// Put the elements into this order, and move only those that are at another place.
function arrange(parent, elements, first = null) {
  let next = first ? first.nextSibling : parent.firstChild;
  for (const element of elements) {
    if (element === next) next = next.nextSibling;
    else parent.insertBefore(element, next);
  }
  while (next) {
    const following = next.nextSibling;
    next.remove();
    next = following;
  }
}

function showTexts(list, texts) {
  list.replaceChildren(...texts.map((text) => {
    const item = document.createElement("li");
    item.textContent = text;
    return item;
  }));
}

function showNews(texts) {
  const list = document.getElementById("news");
  const clock = new Date().toTimeString().slice(0, 8);
  for (const text of texts) {
    const item = document.createElement("li");
    item.textContent = `${clock} ${text}`;
    list.append(item);
  }
  while (list.children.length > MAX_NEWS) list.firstElementChild.remove();
}

function showAgents(overview) {
  document.getElementById("summary").textContent = overview.summary;
  document.title = overview.needs ? `(${overview.needs}) agents` : "agents";
  showTexts(document.getElementById("errors"), overview.errors);
  for (const [id, html] of Object.entries(overview.cards)) replaceCard(id, html);
  const shown = new Set(overview.groups.flatMap((group) => group.ids));
  for (const id of cards.keys()) if (!shown.has(id)) cards.delete(id);
  const groups = overview.groups.map((group) => {
    const section = getSection(group.key);
    section.firstChild.textContent = group.title;
    arrange(section, group.ids.map((id) => cards.get(id)), section.firstChild);
    return section;
  });
  arrange(document.getElementById("groups"), groups);
  showNews(overview.news);
}

function showOverview(overview) {
  if (document.getElementById("groups")) showAgents(overview);
  if (overview.runs !== undefined) document.getElementById("runs").innerHTML = overview.runs;
  showAges();
}

showNotice("");
follow("/events", { overview: showOverview });
