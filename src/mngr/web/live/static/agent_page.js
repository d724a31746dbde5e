// The page of one agent: its head, one tab, and the message to it.

import { act, followWhileVisible, showAges, showNotice } from "./connection.js";

const page = document.getElementById("agent");
const head = document.getElementById("head");
const detail = document.getElementById("detail");
const form = document.getElementById("message");
const base = `/agents/${encodeURIComponent(page.dataset.agent)}`;
let isNewTab = true;

function showHead(facts) {
  const action = head.contains(document.activeElement) ? document.activeElement.dataset.action : null;
  head.innerHTML = facts.html;
  if (action) head.querySelector(`[data-action="${action}"]`)?.focus();
  document.title = facts.title;
  page.classList.toggle("gone", !facts.is_present);
  showAges(head);
}

// Show the tab. Who reads the end of a screen or a log stays at the end.
function showDetail(facts) {
  const isAtEnd = detail.scrollHeight - detail.scrollTop - detail.clientHeight < 30;
  detail.classList.toggle("prose", facts.is_prose);
  detail.innerHTML = facts.html;
  if (facts.is_log && (isAtEnd || isNewTab)) detail.scrollTop = detail.scrollHeight;
  else if (isNewTab) detail.scrollTop = 0;
  isNewTab = false;
}

const reconnect = followWhileVisible(() => `${base}/events?tab=${page.dataset.tab}`, {
  agent: showHead,
  detail: showDetail,
});

document.getElementById("tabs").addEventListener("click", (event) => {
  const link = event.target.closest("a[data-tab]");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  for (const other of document.querySelectorAll("#tabs a")) other.removeAttribute("aria-current");
  link.setAttribute("aria-current", "true");
  page.dataset.tab = link.dataset.tab;
  history.replaceState(null, "", link.href);
  detail.textContent = "loading";
  isNewTab = true;
  reconnect();
});

async function sendMessage(event) {
  event.preventDefault();
  const field = document.getElementById("text");
  const button = form.querySelector("button");
  if (!field.value.trim() || button.disabled) return;
  button.disabled = true;
  showNotice("sending the message …");
  const answer = await act(`${base}/actions`, { kind: "message", text: field.value });
  if (answer.ok) field.value = "";
  button.disabled = false;
}

if (form) {
  form.addEventListener("submit", sendMessage);
  form.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) sendMessage(event);
  });
}
