"use strict";

// Before anything is drawn: what the reader chose last, else what the system says.
const themes = {
  get: () => { try { return localStorage.getItem("mngr-theme"); } catch { return null; } },
  set: (name) => { try { localStorage.setItem("mngr-theme", name); } catch { /* not from this place */ } },
};
document.documentElement.style.colorScheme = themes.get() || "";
