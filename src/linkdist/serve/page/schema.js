// JSON schemas in words and tables.

import { joinWords, make } from "./dom.js";

const WORDS = { string: "text", integer: "whole number", boolean: "true/false" };

/** A schema in a few words, as a list of texts and elements; named schemas are links. */
export function typeOf(schema = {}) {
  if (schema.$ref) {
    const name = schema.$ref.split("/").at(-1);
    return [make("a", { href: `#schema-${name}` }, name)];
  }
  const choices = schema.anyOf ?? schema.oneOf;
  if (choices) {
    const hasNumber = choices.some(({ type }) => type === "number"); // a whole number is one, too
    return joinTypes(choices.filter(({ type }) => !(hasNumber && type === "integer")).map(typeOf));
  }
  const values = schema.enum ?? ("const" in schema ? [schema.const] : null);
  if (values) return joinTypes(values.map((value) => [make("code", {}, JSON.stringify(value))]));
  return joinTypes([schema.type ?? []].flat().map((kind) => plainType(kind, schema)));
}

function plainType(kind, { items, additionalProperties: values, format }) {
  if (kind === "array") return ["list of ", ...grouped(typeOf(items))];
  if (kind === "object" && typeof values === "object") {
    return ["object of ", ...grouped(typeOf(values))];
  }
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

/** The names of the schemas that a schema uses, itself or through others. */
export function namesIn(schema, schemas) {
  const found = new Set();
  const visit = (part) => {
    if (part === null || typeof part !== "object") return;
    const name = part.$ref?.split("/").at(-1);
    if (name in schemas && !found.has(name)) {
      found.add(name);
      visit(schemas[name]);
    }
    for (const value of Object.values(part)) visit(value);
  };
  visit(schema);
  return [...found];
}

/** The fields of an object as a table. */
export function makeFields({ properties, required = [] }) {
  return makeGrid(["Field", "Type", "Meaning"], Object.entries(properties).map(([name, schema]) => {
    const isRequired = required.includes(name) ? "Required." : "";
    const meaning = [schema.description, boundsOf(schema), isRequired].filter(Boolean).join(" ");
    return [[make("code", {}, name)], typeOf(schema), [meaning]];
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
