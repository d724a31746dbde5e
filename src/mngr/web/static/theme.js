"use strict";

// Before the first paint, apply the reader's last choice, or else the system's theme.
const themes = {
  get: () => { try { return localStorage.getItem("mngr-theme"); } catch { return null; } },
  set: (name) => { try { localStorage.setItem("mngr-theme", name); } catch { /* This page may not use storage. */ } },
};
document.documentElement.style.colorScheme = themes.get() || "";
