// Text in a CSV file that a spreadsheet would run. The rules are those of linkdist.tables.csv_text.

import { plural } from "./dom.js";

const FORMULA = /^[=+\-@\t\r\n]/;
const NUMBER = /^[+-]?([0-9][0-9.,]*|[.,][0-9]+)([eE][+-]?[0-9]+)?$/;

/** Put an apostrophe before text that looks like a formula; a number stays as it is. */
export const escapeFormula = (text) =>
  (FORMULA.test(text) && !NUMBER.test(text) ? `'${text}` : text);

/** Escapes the rows of a table, and counts the escaped values of each column. */
export class Formulas {
  #counts = new Map();

  constructor(names) {
    this.names = names;
  }

  header() {
    return this.names.map(escapeFormula);
  }

  row(cells) {
    return cells.map((cell, index) => {
      const safe = typeof cell === "string" ? escapeFormula(cell) : cell;
      if (safe !== cell) this.#counts.set(index, (this.#counts.get(index) ?? 0) + 1);
      return safe;
    });
  }

  notices() {
    return [...this.#counts].map(([index, count]) => {
      const found = `Column ${this.names[index]}: ${plural(count, "value")}`;
      const verbs = count === 1 ? ["looks", "formula", "has"] : ["look", "formulas", "have"];
      return `${found} ${verbs[0]} like ${verbs[1]} of a spreadsheet and ${verbs[2]} a leading ` +
        "apostrophe in the CSV file.";
    });
  }
}
