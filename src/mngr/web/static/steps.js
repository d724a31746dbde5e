"use strict";

// The steps of a test: the line of the transcript, the position in each recording and the changed files move together.
const LONGEST_PAUSE = 2;  // Seconds; as in page.js, the player shortens longer pauses.

// Return the position in the player for each event of a recording.
function readPositions(place) {
  const rows = [];
  let position = 0;
  let last = 0;
  for (const line of JSON.parse(document.getElementById(place.dataset.cast).textContent).split("\n").slice(1)) {
    let time;
    try { [time] = JSON.parse(line); } catch { continue; }
    if (typeof time !== "number") continue;
    position += Math.min(Math.max(time - last, 0), LONGEST_PAUSE);
    last = time;
    rows.push([time, position]);
  }
  return rows;
}

// Show the last moment of a recording that belongs to the step. `end` is in seconds since the beginning of the test.
function seek(place, end) {
  if (!place.player) return;
  place.positions = place.positions || readPositions(place);
  const begin = Number(place.dataset.begin);
  const row = place.positions.findLast(([time]) => begin + time <= end);
  place.target = row ? row[1] + 0.002 : 0;  // The player rounds in another way.
  place.moves = (place.moves || Promise.resolve()).then(() => move(place)).catch(() => {});
}

// The player answers later, so each move waits for the one before it.
async function move(place) {
  await place.player.pause();
  await place.player.seek(place.target);
}

function startSteps(box, stepper) {
  const times = stepper.dataset.times.trim().split(" ").map(Number);
  const lines = [...box.querySelectorAll(".transcript > [data-step]")];
  const label = stepper.querySelector("span");
  let current = -1;

  function show(step) {
    current = Math.max(0, Math.min(step, times.length - 1));
    label.textContent = `step ${current + 1} of ${times.length}`;
    for (const line of lines) line.classList.toggle("current", Number(line.dataset.step) === current);
    for (const files of box.querySelectorAll(".step-files")) files.hidden = Number(files.dataset.step) !== current;
    const note = box.querySelector(".no-files");
    if (note) note.hidden = box.querySelector(".step-files:not([hidden])") !== null;
    const end = current + 1 < times.length ? times[current + 1] : Infinity;
    for (const place of box.querySelectorAll(".player[data-begin]")) seek(place, end);
    box.querySelector(".transcript > .current")?.scrollIntoView({ block: "nearest" });
  }

  const [back, forward] = stepper.querySelectorAll("button");
  back.addEventListener("click", () => show(current - 1));
  forward.addEventListener("click", () => show(current + 1));
  stepper.addEventListener("keydown", (event) => {
    if (event.key === "ArrowLeft") show(current - 1);
    if (event.key === "ArrowRight") show(current + 1);
  });
  for (const line of lines) line.addEventListener("click", () => { if (!String(getSelection())) show(Number(line.dataset.step)); });
  box.querySelector(".transcript").classList.add("stepping");
  stepper.hidden = false;
}

for (const box of document.querySelectorAll(".stepped")) {
  const stepper = box.querySelector(".stepper");
  if (stepper) startSteps(box, stepper);
}
