// JSON schemas in words and tables.

import { joinWords, make } from "./dom.js";

const WORDS = { string: "text", integer: "whole number", boolean: "true or false" };

/** A schema in a few words, as a list of texts and elements; named schemas are links. */
export function typeOf(schema = {}) {
  if (schema.$ref) {
    const name = schema.$ref.split("/").at(-1);
    return [make("a", { href: `#schema-${name}` }, name)];
  }
  const choices = schema.anyOf ?? schema.oneOf;
  if (choices) return joinTypes(choices.map(typeOf));
  const values = schema.enum ?? ("const" in schema ? [schema.const] : null);
  if (values) return joinTypes(values.map((value) => [make("code", {}, JSON.stringify(value))]));
  return joinTypes([schema.type ?? []].flat().map((kind) => plainType(kind, schema)));
}

function plainType(kind, { items, additionalProperties: values, format }) {
  if (kind === "array") return ["list of ", ...grouped(typeOf(items))];
  if (kind === "object" && values && values !== true) return ["object of ", ...grouped(typeOf(values))];
  if (format === "binary") return ["file"];
  return [WORDS[kind] ?? kind];
}

const grouped = (parts) => (parts.includes(" or ") ? ["(", ...parts, ")"] : parts);

/** Join types by 'or', each once. */
function joinTypes(types) {
  const textOf = (parts) => parts.map((part) => part.textContent ?? part).join("");
  const different = [...new Map(types.map((parts) => [textOf(parts), parts])).values()];
  return different.flatMap((parts, index) => (index ? [" or ", ...parts] : parts));
}

/** The fields of an object as a table. */
export function makeFields({ properties, required = [] }) {
  return makeGrid(["Field", "Type", "Meaning"], Object.entries(properties).map(([name, schema]) => {
    const meaning = [schema.description, boundsOf(schema), required.includes(name) ? "Required." : ""];
    return [[make("code", {}, name)], typeOf(schema), [meaning.filter(Boolean).join(" ")]];
  }));
}

function boundsOf({ minimum, maximum, minItems, maxItems }) {
  const parts = [];
  if (minimum !== undefined) parts.push(`at least ${minimum}`);
  if (maximum !== undefined) parts.push(`at most ${maximum}`);
  if (minItems !== undefined && minItems === maxItems) parts.push(`${minItems} entries`);
  const text = joinWords(parts, "and");
  return text && `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;
}

/** A table of cells, which are lists of texts and elements. */
export function makeGrid(head, rows) {
  const titles = head.map((text) => make("th", { scope: "col" }, text));
  const body = rows.map(([first, ...cells]) => make("tr", {},
    make("th", { scope: "row" }, ...first), ...cells.map((parts) => make("td", {}, ...parts))));
  const top = make("thead", {}, make("tr", {}, ...titles));
  const table = make("table", { className: "grid" }, top, make("tbody", {}, ...body));
  return make("div", { className: "scroll" }, table);
}
