// The connection to the server: events from it, and actions to it.

const TOKEN_KEY = "mngr-token";
const RETRY_MILLISECONDS = 1000;
const SILENCE_MILLISECONDS = 40000; // The server sends something at least every 15 seconds.

// The server moves the token from the URL's query to the fragment, which no server sees. Keep it, and remove it there.
function keepToken() {
  const match = /^#token=([A-Za-z0-9_-]+)$/.exec(location.hash);
  if (match) {
    localStorage.setItem(TOKEN_KEY, match[1]);
    history.replaceState(null, "", location.pathname + location.search);
  }
}

export const isReadOnly = document.body.dataset.readOnly === "yes";

export function showNotice(text, isBad = false) {
  const notice = document.getElementById("notice");
  notice.textContent = text;
  notice.classList.toggle("bad", isBad);
}

// Ask the server to change something. Return what became of it, as {ok, text}.
export async function act(path, facts) {
  let answer;
  try {
    const response = await fetch(path, {
      method: "POST",
      headers: { "Content-Type": "application/json", "X-Mngr-Token": localStorage.getItem(TOKEN_KEY) || "" },
      body: JSON.stringify(facts),
    });
    const text = await response.text();
    try {
      answer = JSON.parse(text);
    } catch {
      answer = { ok: false, text: text.trim() };
    }
  } catch {
    answer = { ok: false, text: "mngr web does not answer" };
  }
  showNotice(answer.text, !answer.ok);
  return answer;
}

// Follow the events of a path until the returned function is called. After a lost connection, connect again.
export function follow(path, handlers) {
  let source = null;
  let timer = 0;
  let watchdog = 0;
  let isEnded = false;

  const setConnected = (isConnected) => {
    document.getElementById("connection").hidden = isConnected;
  };
  const watch = () => {
    clearTimeout(watchdog);
    watchdog = setTimeout(reconnect, SILENCE_MILLISECONDS);
  };
  const close = () => {
    clearTimeout(timer);
    clearTimeout(watchdog);
    if (source) source.close();
    source = null;
  };
  const connect = () => {
    close();
    source = new EventSource(path);
    source.onerror = reconnect;
    const listen = (name, handle) => {
      source.addEventListener(name, (event) => {
        setConnected(true);
        watch();
        handle(JSON.parse(event.data));
      });
    };
    for (const [name, handle] of Object.entries(handlers)) listen(name, handle);
    listen("heartbeat", () => {});
    watch();
  };
  const reconnect = () => {
    close();
    if (isEnded) return;
    setConnected(false);
    timer = setTimeout(connect, RETRY_MILLISECONDS);
  };
  connect();
  return () => {
    isEnded = true;
    close();
  };
}

// Follow a path only while the page is visible, because a browser opens few connections to one server.
export function followWhileVisible(getPath, handlers) {
  let stop = null;
  const update = () => {
    if (stop) stop();
    stop = document.hidden ? null : follow(getPath(), handlers);
  };
  document.addEventListener("visibilitychange", update);
  update();
  return update; // Call it when the path has changed.
}

// Show how long ago each time was, and keep it current.
export function showAges(root = document) {
  const now = Date.now() / 1000;
  for (const time of root.querySelectorAll("time[data-since]")) {
    time.textContent = formatAge(Math.max(0, now - Number(time.dataset.since)));
  }
}

function formatAge(seconds) {
  if (seconds < 60) return `${Math.floor(seconds)}s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)}m`;
  if (seconds < 48 * 3600) return `${Math.floor(seconds / 3600)}h`;
  return `${Math.floor(seconds / 86400)}d`;
}

// Run the action of a button on its agent.
async function onActionClick(event) {
  const button = event.target.closest("button[data-action]");
  if (!button) return;
  const { agent, action, state } = button.dataset;
  button.disabled = true;
  showNotice(`${action} …`);
  await act(`/agents/${encodeURIComponent(agent)}/actions`, { kind: action, state });
  button.disabled = false;
}

keepToken();
document.addEventListener("click", onActionClick);
setInterval(showAges, 1000);
