/* A browser starts no worker from a local folder, and the search of the site needs one. On pages
   that are opened from a folder, the script of the worker runs in a hidden frame instead. */
if (location.protocol === "file:") {
  window.Worker = class {
    constructor(url) {
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      const scope = this.frame.contentWindow;
      scope.postMessage = (data) => setTimeout(() => this.onmessage?.({ data }));
      const script = scope.document.createElement("script");
      script.src = url;
      this.loaded = new Promise((resolve, reject) => {
        script.onload = () => resolve(scope);
        script.onerror = reject;
      });
      this.loaded.catch((error) => this.onerror?.(error));
      scope.document.body.append(script);
    }

    postMessage(data) {
      this.loaded.then((scope) => scope.onmessage({ data }));
    }

    terminate() {
      this.frame.remove();
    }
  };
}
