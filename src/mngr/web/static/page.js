"use strict";

for (const place of document.querySelectorAll(".player")) {
  const data = JSON.parse(document.getElementById(place.dataset.cast).textContent);
  AsciinemaPlayer.create({ data }, place, { fit: "width", idleTimeLimit: 2, poster: "npt:1:0:0", terminalFontSize: "13px" });
}

const find = document.getElementById("find");
if (find) {
  find.addEventListener("input", () => {
    const wanted = find.value.toLowerCase();
    for (const row of document.querySelectorAll("#tests tr:not(:first-child)")) {
      row.hidden = !row.textContent.toLowerCase().includes(wanted);
    }
  });
}
