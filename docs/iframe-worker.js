// A page opened from disk may not start a worker, which the search needs. There, a hidden frame does a worker's job.
// The name tells the plugin `offline` that it need not fetch one from the internet.
if (location.protocol === "file:")
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      frame.srcdoc = `<script>window.postMessage = (data) => parent.postMessage(data, "*")</` + `script><script src="${url}"></` + `script>`;
      addEventListener("message", (event) => {
        if (event.source === frame.contentWindow) this.dispatchEvent(new MessageEvent("message", { data: event.data }));
      });
      this.frame = new Promise((ready) => frame.addEventListener("load", () => ready(frame.contentWindow)));
      document.body.append(frame);
    }
    postMessage(data) {
      this.frame.then((inside) => inside.dispatchEvent(new MessageEvent("message", { data })));
    }
  };
