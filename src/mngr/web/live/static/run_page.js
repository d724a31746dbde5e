// The page of one run: its progress and its changes, which a person can leave out.

import { act, followWhileVisible, showNotice } from "./connection.js";

const run = document.getElementById("run").dataset.run;
const base = `/runs/${encodeURIComponent(run)}`;

followWhileVisible(() => `${base}/events`, {
  run(parts) {
    for (const [name, html] of Object.entries(parts)) {
      const place = document.querySelector(`[data-part="${name}"]`);
      if (place) place.innerHTML = html;
    }
  },
});

document.addEventListener("click", async (event) => {
  const button = event.target.closest("button[data-leave-out]");
  if (!button) return;
  const reason = prompt(`Why do you leave out the change ${button.dataset.leaveOut}? Later agents see the reason.`);
  if (reason === null) return;
  button.disabled = true;
  showNotice("starting to rebuild the branch …");
  const answer = await act(`${base}/leave-out`, { change: button.dataset.leaveOut, reason });
  button.disabled = answer.ok;
});
