"use strict";

function play(place) {
  const data = JSON.parse(document.getElementById(place.dataset.cast).textContent);
  place.player = AsciinemaPlayer.create({ data }, place, { fit: "width", idleTimeLimit: 2, poster: "npt:1:0:0", terminalFontSize: "13px" });
}

for (const place of document.querySelectorAll(".player")) {
  const details = place.closest("details");
  if (details && !details.open) {  // The reader may have opened it before this script ran.
    details.addEventListener("toggle", () => play(place), { once: true });
  } else {
    play(place);
  }
}

const find = document.getElementById("find");
if (find) {
  find.addEventListener("input", () => {
    const wanted = find.value.toLowerCase();
    for (const row of document.querySelectorAll("#tests tr:not(:first-child), .cited")) {
      const block = row.querySelector(".block") || row;
      row.hidden = !block.textContent.toLowerCase().includes(wanted);
    }
    for (const part of document.querySelectorAll(".part")) {
      part.hidden = !part.querySelector(".cited:not([hidden])");
    }
  });
}
