// The fields of the form: an input for each kind of column.

import { formatNumber, joinWords, make, plural, show, UserError } from "./dom.js";

const MAX_VALUES = 100; // the service lists at most so many categories or tags of a column
const FEW = 20; // values of a column that are offered as a choice
const ABSENT = "Not known, or another value";

/**
 * The field of each kind of column: its input, its hint, a note on the current value, and how the
 * value is read. An empty field is null, a missing value; a wrong one throws a UserError.
 */
const KINDS = {
  numeric: {
    input: () => make("input", { type: "number", step: "any" }),
    hint: ({ example }) =>
      Number.isFinite(example) ? `A number, such as ${Number(example.toPrecision(4))}` : "A number",
    note: () => "",
    read(input) {
      if (input.validity.badInput) {
        throw new UserError("This is not a number. Enter one such as 0.25, or leave it empty.");
      }
      return input.value === "" ? null : Number(input.value);
    },
  },
  date: {
    input: () => make("input", { type: "text" }),
    hint: ({ example }) => `A date, such as ${example}`,
    note: () => "",
    read: (input) => input.value.trim() || null,
  },
  categorical: {
    input: ({ values }) => (isFew(values) ? makeChoice(values) : make("input", { type: "text" })),
    hint({ values }) {
      if (isFew(values)) return "Another value than these counts as missing";
      const all = `One of ${joinWords(values, "or")}`;
      const some = values.slice(0, 2).join(", ");
      return all.length <= 60 ? all : `One of ${values.length} values, such as ${some}`;
    },
    note(input, { values }) {
      if (isFew(values)) return "";
      return mayBeKnown(input.value.trim(), values) ? "" : unknownNote("value");
    },
    read: (input, { values }) => (isFew(values) ? input.value : input.value.trim()) || null,
  },
  text: {
    input: () => make("textarea", { rows: 2 }),
    hint: () => "Text",
    note: () => "",
    read: (input) => input.value.trim() || null,
  },
  tags: {
    input: () => make("input", { type: "text" }),
    hint({ values, separator }) {
      const some = values.slice(0, 2).join(separator ?? ", ");
      const by = { "|": "bars", ";": "semicolons" }[separator] ?? "commas";
      return `Tags, separated by ${by}${some && `, such as ${some}`}`;
    },
    note(input, column) {
      const tags = splitTags(input.value, column);
      return tags.every((tag) => mayBeKnown(tag, column.values)) ? "" : unknownNote("tag");
    },
    read(input, column) {
      const tags = splitTags(input.value, column);
      return tags.length ? tags : null;
    },
  },
  vector: {
    input: () => make("input", { type: "text" }),
    hint: ({ width }) => `${plural(width, "number")}, separated by commas`,
    note: (input, { width }) => `${splitNumbers(input.value).length} of ${plural(width, "number")}`,
    read: (input, { width }) => readNumbers(input.value, width),
  },
};
KINDS["tags:binary"] = KINDS.tags;
KINDS.features = {
  ...KINDS.vector,
  input: () => make("textarea", { rows: 8 }),
  hint: ({ width }) => `${plural(width, "number")}, separated by commas, spaces or lines`,
};

const isFew = (values) => values.length > 0 && values.length <= FEW;

function makeChoice(values) {
  const absent = make("option", { value: "" }, ABSENT);
  return make("select", {}, absent, ...values.map((value) => make("option", { value }, value)));
}

/** Whether a text is the start of a known value, or not all known values are listed. */
function mayBeKnown(text, values) {
  return values.length >= MAX_VALUES || values.some((known) => known.startsWith(text));
}

function unknownNote(what) {
  return `This ${what} was not in the training data; it counts as missing.`;
}

function splitTags(text, { separator }) {
  return text.split(separator ?? ",").map((tag) => tag.trim()).filter(Boolean);
}

function splitNumbers(text) {
  return text.replace(/^\s*\[|\]\s*$/g, "").split(/[\s,;]+/).filter(Boolean);
}

/** Read a list of numbers; null if it is empty. */
export function readNumbers(text, width) {
  const entries = splitNumbers(text);
  const wrong = entries.findIndex((entry) => !Number.isFinite(Number(entry)));
  if (wrong >= 0) {
    const found = `Entry ${wrong + 1} is “${entries[wrong]}”, which is not a number.`;
    throw new UserError(`${found} Enter numbers such as -3 or 0.25.`);
  }
  if (!entries.length) return null;
  const more = width - entries.length;
  if (more) {
    const found = plural(entries.length, "number");
    const advice = more > 0 ? `Add ${formatNumber(more)}` : `Remove ${formatNumber(-more)}`;
    throw new UserError(`Found ${found}, but ${formatNumber(width)} are needed. ${advice}.`);
  }
  return entries.map(Number);
}

/** Make the field of a column: a label, a hint, an input and a place for an error. */
export function makeField(column, index) {
  const kind = KINDS[column.kind] ?? KINDS.text;
  const id = `field-${index}`;
  const input = kind.input(column);
  const hint = make("span", { className: "hint", id: `${id}-hint` }, kind.hint(column));
  const error = make("p", { className: "error", id: `${id}-error`, hidden: true });
  Object.assign(input, { id, name: column.name, autocomplete: "off" });
  input.setAttribute("aria-describedby", `${hint.id} ${error.id}`);
  const parts = column.name.split(/(?<=_)/).flatMap((part) => [part, make("wbr")]);
  const label = make("label", { htmlFor: id }, ...parts);
  const box = make("div", { className: "field" }, label, hint, input, error);
  box.classList.toggle("wide", input.localName === "textarea" || column.kind === "vector");
  if (column.kind === "categorical" && column.values.length > FEW) {
    const options = column.values.map((value) => make("option", { value }));
    box.append(make("datalist", { id: `${id}-values` }, ...options));
    input.setAttribute("list", `${id}-values`);
  }

  const field = {
    column,
    input,
    box,
    read: () => kind.read(input, column),
    setError(text) {
      error.textContent = text;
      show(error, text !== "");
      if (text) input.setAttribute("aria-invalid", "true");
      else input.removeAttribute("aria-invalid");
    },
    clear() {
      field.setError("");
      hint.textContent = kind.hint(column);
    },
  };
  input.addEventListener("input", () => {
    field.setError("");
    hint.textContent = (input.value && kind.note(input, column)) || kind.hint(column);
  });
  return field;
}
