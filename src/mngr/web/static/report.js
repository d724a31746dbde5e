"use strict";

document.getElementById("theme").addEventListener("click", () => {
  const root = document.documentElement;
  const isDark = root.style.colorScheme ? root.style.colorScheme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.style.colorScheme = isDark ? "light" : "dark";
  themes.set(root.style.colorScheme);
});

// The task table keeps its filters in the address, so that links and reloads preserve them.
const search = document.getElementById("search");
const picks = { outcome: null, verdict: null, kind: null };

function read() {
  const wish = new URLSearchParams(location.hash.slice(1));
  search.value = wish.get("text") || "";
  for (const name of Object.keys(picks)) picks[name].value = wish.get(name) || "";
}

function filter() {
  const text = search.value.toLowerCase();
  const [outcome, verdict, kind] = [picks.outcome.value, picks.verdict.value, picks.kind.value];
  const gone = new Set();
  let count = 0;
  for (const row of document.querySelectorAll("#tasks-table tbody tr")) {
    row.hidden = !(
      (!outcome || row.dataset.outcome === outcome) && (!verdict || row.dataset.verdict === verdict) &&
      (!kind || row.dataset.kinds.split(" ").includes(kind)) && (!text || (row.dataset.slug + " " + row.textContent).toLowerCase().includes(text))
    );
    if (row.hidden) gone.add(row.dataset.slug); else count += 1;
  }
  for (const row of document.querySelectorAll(".timeline a")) row.classList.toggle("gone", gone.has(row.dataset.slug));
  document.getElementById("shown").textContent = count;
}

function keep() {
  const wish = new URLSearchParams();
  if (search.value) wish.set("text", search.value);
  for (const [name, pick] of Object.entries(picks)) if (pick.value) wish.set(name, pick.value);
  history.replaceState(null, "", wish.size ? "#" + wish : location.pathname);
  filter();
}

function sortBy(at, button) {
  const body = document.querySelector("#tasks-table tbody");
  const isDown = button.classList.contains("up");
  const value = (row) => row.cells[at].dataset.n === undefined ? row.cells[at].textContent.trim() : Number(row.cells[at].dataset.n);
  const rows = [...body.rows].map((row) => [value(row), row]);
  rows.sort(([a], [b]) => (typeof a === "number" ? a - b : a.localeCompare(b)) * (isDown ? -1 : 1));
  body.append(...rows.map(([, row]) => row));
  for (const other of document.querySelectorAll("#tasks-table th button")) other.classList.remove("up", "down");
  button.classList.add(isDown ? "down" : "up");
}

if (search) {
  for (const name of Object.keys(picks)) {
    picks[name] = document.getElementById("by-" + name);
    picks[name].addEventListener("change", keep);
  }
  search.addEventListener("input", keep);
  addEventListener("hashchange", () => { read(); filter(); });
  document.getElementById("clear").addEventListener("click", () => { history.replaceState(null, "", location.pathname); read(); filter(); });
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && document.activeElement !== search) { event.preventDefault(); search.focus(); }
  });
  for (const button of document.querySelectorAll("#tasks-table th button")) button.addEventListener("click", () => sortBy(Number(button.dataset.at), button));
  read();
  filter();
}

// Reload the page of a running run, unless the reader is using it.
const PACE = 10000;
const PLAYS = ".ap-player:not(:has(.ap-overlay-start))";

function look() {
  const isBusy = document.hidden || (search && document.activeElement === search) || String(getSelection()) || document.querySelector(PLAYS);
  if (!isBusy) location.reload();
}

if (document.querySelector("[data-live]")) setInterval(look, PACE);
