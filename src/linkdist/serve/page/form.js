// The form that predicts one node, and its result.

import { byId, show, showNotices, UserError } from "./dom.js";
import { makeExplanation } from "./explain.js";
import { makeField } from "./fields.js";
import { makeNeighbours } from "./neighbours.js";
import { predictRows } from "./predict.js";
import { makeTask } from "./tasks.js";

export function makeForm(model) {
  const features = { name: "Features", kind: "features", width: model.features };
  const fields = (model.columns ?? [features]).map(makeField);
  const result = byId("result");
  const task = makeTask(model);
  const explanation = makeExplanation(model);
  let running = null;
  byId("classify").textContent = task.words.action;
  byId("form-hint").textContent = model.columns
    ? "Enter the values that you know. An empty field counts as missing."
    : "Paste the features of the node, in the order of the training data.";
  byId("fields").append(...fields.map((field) => field.box));
  byId("fields").classList.toggle("many", fields.length > 5);
  const neighbours = makeNeighbours(model);
  showNoResult(task);

  const predict = async ({ values, links }) => {
    const named = fields.map((field, index) => [field.column.name, values[index]]);
    const rows = [model.columns ? Object.fromEntries(named) : values[0]];
    const request = { rows, ...links };
    const answer = await predictRows(request, { signal: running.signal });
    show(byId("replaced"), answer.version !== model.version);
    showResult(task, answer.predictions[0]);
    showNotices(byId("notices"), answer.notices);
    explanation.offer(request, answer.version);
  };
  byId("form").onsubmit = async (event) => {
    event.preventDefault();
    if (running) return;
    clearFormError();
    running = new AbortController();
    setBusy(task, true);
    try {
      await predict(readFields(fields, neighbours));
    } catch (error) {
      if (error.name !== "AbortError") showErrors(fields, neighbours, error);
    } finally {
      running = null;
      setBusy(task, false);
    }
  };
  byId("form").onreset = () => {
    running?.abort();
    clearFormError();
    for (const field of [...fields, neighbours]) field.clear();
    showNoResult(task);
    explanation.hide();
    fields[0]?.input.focus();
  };
  byId("form").oninput = () => {
    clearFormError();
    if (result.dataset.state !== "shown") return;
    result.dataset.state = "stale";
    explanation.hide();
    byId("result-words").textContent = "This result is for the values before your change.";
  };
}

/** An error with a message for each wrong field. */
class WrongFields extends UserError {
  constructor(messages) {
    super("Some fields are wrong.");
    this.messages = messages;
  }
}

/** Read all fields and the neighbours; one error has the messages of all wrong ones. */
function readFields(fields, neighbours) {
  const messages = new Map();
  const read = (field) => {
    field.setError("");
    try {
      return field.read();
    } catch (error) {
      messages.set(field, error.message);
      return null;
    }
  };
  const values = fields.map(read);
  const links = read(neighbours);
  if (messages.size) throw new WrongFields(messages);
  if (values.every((value) => value === null)) {
    throw new UserError("All fields are empty. Enter at least one value.");
  }
  return { values, links };
}

/** The fields that an answer of the service names. */
function messagesOf(fields, neighbours, columns) {
  const messages = new Map();
  for (const [name, text] of Object.entries(columns)) {
    const field = fields.find(({ column }) => column.name === name);
    if (neighbours.isMeant(text)) messages.set(neighbours, neighbours.explain(text));
    else if (field) messages.set(field, text);
  }
  return messages;
}

/** Show an error next to the fields that it names, and at the form if it names others or none. */
function showErrors(fields, neighbours, error) {
  const columns = error.columns ?? {};
  const messages = error.messages ?? messagesOf(fields, neighbours, columns);
  for (const [field, text] of messages) field.setError(text);
  if (!messages.size || messages.size < Object.keys(columns).length) {
    show(byId("form-error"));
    byId("form-error").textContent = error.message;
  }
  const [first] = messages.keys();
  (first?.input ?? byId("form-error")).focus();
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
