// Files that are chosen or dropped: which can be used, and where they go.

import { formatBytes, joinWords } from "./dom.js";
import { tables } from "./predict.js";

/** Why a file cannot be a table; empty if it can. `others` are bytes that are sent with it. */
export function whyUnusable({ name, size }, limits, others = 0) {
  if (!tables.suffixes.some((suffix) => name.toLowerCase().endsWith(suffix))) {
    const rule = `Choose a file whose name ends in ${joinWords(tables.suffixes, "or")}.`;
    return `${name} does not have the name of a ${tables.names} file. ${rule}`;
  }
  if (size === 0) return `${name} is empty. Choose a file with a header and at least one row.`;
  if (size + others > limits.file_bytes) {
    const found = others ? `${name} and its links have` : `${name} has`;
    return (
      `${found} ${formatBytes(size + others)}, ` +
      `but the largest size is ${formatBytes(limits.file_bytes)}. ` +
      "Split it, or use linkdist predict on the command line."
    );
  }
  return "";
}

/**
 * Accept files anywhere on the page: otherwise the browser would open them and leave the page.
 *
 * `zones` are pairs of an element and what takes the files that are dropped on it; the last one
 * takes those that are dropped elsewhere.
 */
export function acceptDrops(zones) {
  const zoneOf = ({ target }) =>
    zones.find(([element]) => target instanceof Node && element.contains(target)) ?? zones.at(-1);
  const highlight = (lit) => {
    for (const [element] of zones) element.classList.toggle("lit", element === lit);
  };
  const onFiles = (kind, act) =>
    window.addEventListener(kind, (event) => {
      if (!event.dataTransfer?.types.includes("Files")) return;
      event.preventDefault();
      act(event);
    });
  onFiles("dragenter", (event) => highlight(zoneOf(event)[0]));
  onFiles("dragover", (event) => highlight(zoneOf(event)[0]));
  onFiles("dragleave", (event) => {
    if (event.relatedTarget === null) highlight(null); // the pointer has left the page
  });
  onFiles("drop", (event) => {
    highlight(null);
    zoneOf(event)[1]([...event.dataTransfer.files]);
  });
}
