// The form that predicts one node, and its result.

import {
  byId, formatNumber, joinWords, make, plural, show, showNotices, UserError,
} from "./dom.js";
import { predictRows } from "./predict.js";
import { makeTask } from "./tasks.js";

const MAX_VALUES = 100; // the service lists at most so many categories or tags of a column

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
    input: () => make("input", { type: "text" }),
    hint({ values }) {
      const all = `One of ${joinWords(values, "or")}`;
      const some = values.slice(0, 2).join(", ");
      return all.length <= 60 ? all : `One of ${values.length} values, such as ${some}`;
    },
    note(input, { values }) {
      const text = input.value.trim();
      return mayBeKnown(text, values) ? "" : unknownNote("value");
    },
    read: (input) => input.value.trim() || null,
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

function readNumbers(text, width) {
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

function makeField(column, index) {
  const kind = KINDS[column.kind] ?? KINDS.text;
  const id = `field-${index}`;
  const input = kind.input();
  const hint = make("span", { className: "hint", id: `${id}-hint` }, kind.hint(column));
  const error = make("p", { className: "error", id: `${id}-error`, hidden: true });
  Object.assign(input, { id, name: column.name, autocomplete: "off" });
  input.setAttribute("aria-describedby", `${hint.id} ${error.id}`);
  const parts = column.name.split(/(?<=_)/).flatMap((part) => [part, make("wbr")]);
  const label = make("label", { htmlFor: id }, ...parts);
  const box = make("div", { className: "field" }, label, hint, input, error);
  box.classList.toggle("wide", input.localName === "textarea" || column.kind === "vector");
  if (column.kind === "categorical" && column.values.length) {
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

export function makeForm(model) {
  const features = { name: "Features", kind: "features", width: model.features };
  const fields = (model.columns ?? [features]).map(makeField);
  const result = byId("result");
  const task = makeTask(model);
  let running = null;
  byId("classify").textContent = task.words.action;
  byId("form-hint").textContent = model.columns
    ? "Enter the values that you know. An empty field counts as missing."
    : "Paste the features of the node, in the order of the training data.";
  byId("fields").append(...fields.map((field) => field.box));
  byId("fields").classList.toggle("many", fields.length > 5);
  showNoResult(task);

  const predict = async (values) => {
    const named = fields.map((field, index) => [field.column.name, values[index]]);
    const rows = [model.columns ? Object.fromEntries(named) : values[0]];
    const answer = await predictRows({ rows }, { signal: running.signal });
    show(byId("replaced"), answer.version !== model.version);
    showResult(task, answer.predictions[0]);
    showNotices(byId("notices"), answer.notices);
  };
  byId("form").onsubmit = async (event) => {
    event.preventDefault();
    if (running) return;
    clearFormError();
    running = new AbortController();
    setBusy(task, true);
    try {
      await predict(readFields(fields));
    } catch (error) {
      if (error.name !== "AbortError") showErrors(fields, error);
    } finally {
      running = null;
      setBusy(task, false);
    }
  };
  byId("form").onreset = () => {
    running?.abort();
    clearFormError();
    for (const field of fields) field.clear();
    showNoResult(task);
    fields[0]?.input.focus();
  };
  byId("form").oninput = () => {
    clearFormError();
    if (result.dataset.state !== "shown") return;
    result.dataset.state = "stale";
    byId("result-words").textContent = "This result is for the values before your change.";
  };
}

/** Read all fields; one UserError has the messages of all wrong ones. */
function readFields(fields) {
  const wrong = {};
  const values = fields.map((field) => {
    field.setError("");
    try {
      return field.read();
    } catch (error) {
      wrong[field.column.name] = error.message;
      return null;
    }
  });
  if (Object.keys(wrong).length) throw new UserError("Some fields are wrong.", wrong);
  if (values.every((value) => value === null)) {
    throw new UserError("All fields are empty. Enter at least one value.");
  }
  return values;
}

/** Show an error next to the fields that it names, and at the form if it names others or none. */
function showErrors(fields, error) {
  const columns = error.columns ?? {};
  const named = fields.filter((field) => Object.hasOwn(columns, field.column.name));
  for (const field of named) field.setError(columns[field.column.name]);
  if (!named.length || named.length < Object.keys(columns).length) {
    show(byId("form-error"));
    byId("form-error").textContent = error.message;
  }
  (named[0]?.input ?? byId("form-error")).focus();
}

function clearFormError() {
  byId("form-error").textContent = "";
  show(byId("form-error"), false);
}

function setBusy({ words }, isBusy) {
  const button = byId("classify");
  button.classList.toggle("busy", isBusy);
  button.setAttribute("aria-disabled", isBusy); // with `disabled` it would lose the focus
  button.textContent = isBusy ? `${words.busy} …` : words.action;
  byId("result").setAttribute("aria-busy", isBusy);
}

function showNoResult(task) {
  byId("result").dataset.state = "empty";
  byId("verdict-of").textContent = "Result";
  byId("verdict").textContent = "No result yet";
  byId("result-words").textContent = task.words.empty;
  byId("result-said").textContent = "";
  showNotices(byId("notices"));
  byId("bars").replaceChildren(...task.empty());
}

function showResult(task, prediction) {
  const { target, verdict, bars, said } = task.result(prediction);
  const andLinks = prediction.mode === "links" ? " and its links" : "";
  byId("result").dataset.state = "shown";
  byId("verdict-of").textContent = target;
  byId("verdict").replaceChildren(...verdict);
  byId("result-words").textContent = `Predicted from the node’s features${andLinks}.`;
  byId("bars").replaceChildren(...bars);
  byId("result-said").textContent = said;
  byId("verdict").parentElement.scrollIntoView({ block: "nearest" });
}
