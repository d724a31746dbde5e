// Browsers start no worker from a page that was opened from disk. There, run the search of the site in a hidden frame instead.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      this.ready = new Promise((resolve) => this.frame.addEventListener("load", resolve, { once: true }));
      window.mngrSearchAnswer = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      this.frame.srcdoc =
        "<script>window.postMessage = (data) => parent.mngrSearchAnswer(data);</scr" + "ipt>" +
        `<script src="${url}"></scr` + "ipt>";
      document.addEventListener("DOMContentLoaded", () => document.body.append(this.frame));
      if (document.body) document.body.append(this.frame);
    }

    postMessage(data) {
      this.ready.then(() => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data })));
    }
  };
}
