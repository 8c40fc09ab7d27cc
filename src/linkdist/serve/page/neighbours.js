// The neighbours of a node, as a small table that is pasted or dropped.

import { findSeparator, parseCsv } from "./csv.js";
import { byId, joinWords, plural, show, UserError } from "./dom.js";
import { readNumbers } from "./fields.js";
import { usesLinks } from "./predict.js";

const WAYS = ["out", "in"]; // from the node to the neighbour, and from the neighbour to the node

/**
 * Make the field of the neighbours. It has the methods of other fields; `read` returns the
 * `neighbours` and the `links` of a request, or nothing if there are none.
 */
export function makeNeighbours(model) {
  const [box, input, hint, error] = ["box", "text", "hint", "error"].map((part) =>
    byId(`neighbours-${part}`));
  const table = model.columns ? new NeighbourTable(model) : new NeighbourVectors(model);
  // The features of a model without columns leave no place for a relation.
  show(box, usesLinks && (model.columns !== null || model.relations.length === 1));
  const showHint = (text = "") => {
    hint.textContent = text || table.hint();
  };

  const field = {
    input,
    read: () => (input.value.trim() ? table.read(input.value) : null),
    setError(text) {
      if (text) box.open = true;
      error.textContent = text;
      show(error, text !== "");
      if (text) input.setAttribute("aria-invalid", "true");
      else input.removeAttribute("aria-invalid");
    },
    clear() {
      field.setError("");
      showHint();
    },
    /** Whether a message of the service is about neighbours, which follow the node as rows. */
    isMeant: (text) => {
      const rows = [...text.matchAll(/\brow (\d+)/g)].map(([, row]) => Number(row));
      return input.value.trim() !== "" && rows.length > 0 && rows.every((row) => row > 1);
    },
    explain: (text) => `${text} Row 1 is the node itself, and row 2 is the first neighbour.`,
  };
  input.addEventListener("input", () => {
    field.setError("");
    showHint(input.value.trim() && table.describe(input.value));
  });
  takeDrops(input);
  showHint();
  return field;
}

/** Put the text of a dropped file into the field. */
function takeDrops(input) {
  input.addEventListener("drop", async (event) => {
    const [file] = event.dataTransfer?.files ?? [];
    if (!file) return;
    event.preventDefault();
    event.stopPropagation(); // elsewhere on the page a file is a table to predict
    input.value = await file.text();
    input.dispatchEvent(new Event("input", { bubbles: true }));
  });
}

/** Neighbours with the columns of the model. */
class NeighbourTable {
  constructor({ columns, relations, weighted, directed, link_columns: named }) {
    Object.assign(this, { columns, relations });
    const roles = { relation: relations.length > 1, weight: weighted, direction: directed };
    // A column may have the name that it had in the training's table of links.
    this.roles = Object.entries(roles).filter(([, isUsed]) => isUsed).map(([role]) =>
      [role, [role, named?.[role]].filter(Boolean)]);
  }

  hint() {
    const texts = {
      relation: `relation (${joinWords(this.relations, "or")})`,
      weight: "weight",
      direction: "direction (out, from the node to the neighbour, or in)",
    };
    const names = this.columns.map(({ name }) => name);
    const shown = names.length > 8 ? [`the model’s ${names.length} columns`] : names;
    const all = joinWords([...shown, ...this.roles.map(([role]) => texts[role])], "and");
    return `Paste the rows of a table with a header, or drop a CSV file. Columns: ${all}.`;
  }

  describe(text) {
    const { head, rows } = this.#split(text);
    const unused = head.filter((name) => !this.#isColumn(name) && !this.#roleOf(name));
    const rest = unused.length ? ` Not used: ${joinWords(unused, "and")}.` : "";
    return `${plural(rows.length, "neighbour")}.${rest}`;
  }

  read(text) {
    const { head, rows } = this.#split(text);
    const names = joinWords(this.columns.slice(0, 4).map(({ name }) => name), "or");
    if (!head.some((name) => this.#isColumn(name))) {
      const found = `“${head.join(", ")}”`;
      throw new UserError(`The first line must name columns, such as ${names}; found ${found}.`);
    }
    if (!rows.length) throw new UserError("There are no neighbours below the line of columns.");
    const long = rows.findIndex((row) => row.length > head.length);
    if (long >= 0) {
      const found = `Neighbour ${long + 1} has ${plural(rows[long].length, "value")}`;
      throw new UserError(`${found}, but the first line names ${plural(head.length, "column")}.`);
    }
    const entries = rows.map((row) => new Map(head.map((name, k) => [name, row[k]?.trim() ?? ""])));
    return {
      neighbours: entries.map((entry) => this.#row(entry)),
      links: entries.map((entry, index) => this.#link(entry, index)),
    };
  }

  #split(text) {
    const [header = ""] = text.split(/\r?\n/, 1);
    const lines = [...parseCsv(text, findSeparator(header))];
    const [head = [], ...rows] = lines.filter((row) => row.some((cell) => cell.trim()));
    return { head: head.map((name) => name.trim()), rows };
  }

  #isColumn(name) {
    return this.columns.some((column) => column.name === name);
  }

  #roleOf(name) {
    if (this.#isColumn(name)) return undefined;
    return this.roles.find(([, names]) => names.includes(name))?.[0];
  }

  /** Values as text: the service reads them as in a table. */
  #row(entry) {
    const given = this.columns.filter(({ name }) => entry.get(name));
    return Object.fromEntries(given.map(({ name, kind, width }) =>
      [name, kind === "vector" ? readNumbers(entry.get(name), width) : entry.get(name)]));
  }

  #link(entry, index) {
    const roles = {};
    for (const [name, text] of entry) if (text) roles[this.#roleOf(name)] = text;
    const { relation, weight, direction = "out" } = roles;
    if (!WAYS.includes(direction)) {
      const found = `neighbour ${index + 1} has “${direction}”`;
      throw new UserError(`A direction must be out or in; ${found}.`);
    }
    if (weight !== undefined && !(Number(weight) > 0)) {
      const found = `neighbour ${index + 1} has “${weight}”`;
      throw new UserError(`A weight must be a positive number; ${found}.`);
    }
    const ends = direction === "out" ? [0, index + 1] : [index + 1, 0];
    if (relation === undefined && weight === undefined) return ends;
    const link = { source: ends[0], target: ends[1] };
    if (relation !== undefined) link.relation = relation;
    if (weight !== undefined) link.weight = Number(weight);
    return link;
  }
}

/** Neighbours of a model without columns: a line of features for each. */
class NeighbourVectors {
  constructor({ features }) {
    this.width = features;
  }

  hint() {
    return `A line of ${plural(this.width, "number")} for each neighbour.`;
  }

  describe(text) {
    return `${plural(this.#lines(text).length, "neighbour")}.`;
  }

  read(text) {
    const neighbours = this.#lines(text).map((line) => readNumbers(line, this.width));
    return { neighbours, links: neighbours.map((_, index) => [0, index + 1]) };
  }

  #lines(text) {
    return text.split(/\r?\n/).filter((line) => line.trim());
  }
}
