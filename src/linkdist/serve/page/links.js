// The tables of links that are sent with a table of nodes.

import { byId, formatBytes, joinWords, show, UserError } from "./dom.js";
import { whyUnusable } from "./files.js";

/**
 * Make the place for tables of links; returns it with the `files` that were chosen.
 *
 * `onChosen` is called after files were chosen, and `onProblem` with an error if they cannot be.
 */
export function makeLinkFiles(model, { onChosen, onProblem }) {
  const input = byId("links-file");
  const links = { files: [] };
  input.multiple = model.relations.length > 1;
  byId("links-hint").textContent = linksHint(model);

  const set = (files) => {
    links.files = files;
    const size = formatBytes(files.reduce((sum, file) => sum + file.size, 0));
    const names = joinWords(files.map(({ name }) => name), "and");
    byId("links-name").textContent = `${names} (${size})`;
    show(byId("links-chooser"), !files.length);
    show(byId("links-chosen"), files.length > 0);
  };
  links.take = (files) => {
    if (!files.length) return;
    const problem = files.map((file) => whyUnusable(file, model.limits)).find(Boolean);
    if (problem) {
      onProblem(new UserError(problem));
      return;
    }
    set(files);
    byId("links-remove").focus();
    onChosen();
  };
  input.onchange = () => {
    const files = [...input.files];
    input.value = ""; // so that the same file can be chosen again after a correction
    links.take(files);
  };
  byId("links-remove").onclick = () => {
    set([]);
    input.focus();
  };
  return links;
}

function linksHint({ relations, link_columns: named = {} }) {
  const ends = [named.source, named.target].filter(Boolean);
  const columns = [`two columns of ids${ends.length === 2 ? ` (${ends.join(" and ")})` : ""}`];
  if (named.relation) columns.push(`${named.relation} (the relation)`);
  if (named.weight) columns.push(`${named.weight} (the weight)`);
  const needed = `Needed columns: ${joinWords(columns, "and")}.`;
  if (relations.length < 2 || named.relation) return needed;
  return `${needed} One file for each relation: ${joinWords(relations, "and")}.`;
}
