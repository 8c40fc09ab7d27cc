// The page of `linkdist serve`: the model, a form for one node, an upload for many.

import {
  byId, capitalise, fetchJson, formatNumber, formatPercent, formatTime, joinWords, make,
  makeCountBars, plural, show,
} from "./dom.js";
import { makeForm } from "./form.js";
import { renderMarkdown } from "./markdown.js";
import { makeTable } from "./table.js";

async function start() {
  try {
    const model = await fetchJson("/v1/model");
    showHeader(model);
    makeForm(model);
    if (model.columns) makeTable(model);
    show(byId("tables"), model.columns !== null);
    showAbout(model);
    show(byId("app"));
  } catch (error) {
    byId("failed-reason").textContent = error.message;
    show(byId("failed"));
  } finally {
    show(byId("loading"), false);
  }
}

function showHeader(model) {
  const { name, label, classes, columns, features, refused, version, loaded } = model;
  document.title = `${name} · LinkDist`;
  byId("name").textContent = name;
  const few = joinWords(classes, "or");
  const choice = classes.length <= 6 ? few : `one of ${formatNumber(classes.length)} classes`;
  const basis = columns ? plural(columns.length, "column") : plural(features, "feature");
  byId("what").append(
    "Predicts a node’s ", make("b", {}, label ?? "class"), ` (${choice}) from ${basis}.`,
  );
  const tiles = makeTiles(model);
  byId("tiles").append(...tiles);
  show(byId("tiles"), tiles.length > 1);
  if (refused) {
    byId("refused").textContent =
      `A newer model was refused (${formatTime(refused.at)}), and this one stays in use. ` +
      refused.reason;
    show(byId("refused"));
  }
  byId("foot").append("Version ", make("code", {}, version), `, loaded ${formatTime(loaded)}.`);
}

function makeTiles({ scores, data, columns, features }) {
  const tile = (term, value, text) => {
    const content = make("dd", {}, make("b", {}, value), make("span", {}, text));
    return make("div", {}, make("dt", {}, term), content);
  };
  const count = scores["validation nodes"];
  const basis = count ? `of ${plural(count, "validation node")}` : "of validation nodes";
  const tiles = Object.entries(scores)
    .filter(([key, value]) => key.startsWith("accuracy") && typeof value === "number")
    .map(([key, value]) => tile(capitalise(key), formatPercent(value), basis));
  if (data.nodes) {
    const known = Object.values(data.labels ?? {}).reduce((sum, count) => sum + count, 0);
    const words = known ? `nodes, ${formatNumber(known)} with a label` : "nodes";
    tiles.push(tile("Trained on", formatNumber(data.nodes), words));
  }
  const names = (columns ?? []).map((column) => column.name);
  const some = names.length > 4 ? [...names.slice(0, 3), "…"] : names;
  tiles.push(
    columns
      ? tile("Columns", formatNumber(names.length), some.join(", "))
      : tile("Features", formatNumber(features), "numbers per node"),
  );
  return tiles;
}

function showAbout({ card, data, training, replicas, has_curve: hasCurve, has_report: hasReport }) {
  if (hasCurve) {
    const text = card?.match(/!\[((?:\\.|[^\]\\])*)\]\(curve\.svg\)/)?.[1].replace(/\\(.)/g, "$1");
    byId("curve-image").alt = text ?? "Validation accuracy during training.";
    byId("curve-image").src = "/v1/model/curve.svg";
    show(byId("curve"));
  }
  const hasGroups = showCounts(data);
  const hasTraining = showPairs("training", replicas > 1 ? { ...training, replicas } : training);
  const hasData = showPairs("data", data);
  show(byId("drawn"), hasCurve || hasGroups);
  show(byId("facts"), hasCurve || hasGroups || hasTraining || hasData);
  show(byId("report"), hasReport);
  if (card) {
    byId("card-text").append(...renderMarkdown(card));
    show(byId("card"));
  }
}

/** Show counts, such as the nodes of each class, as bars; return whether there are any. */
function showCounts(values) {
  const groups = Object.entries(values).filter(([, value]) => value && typeof value === "object");
  for (const [key, group] of groups) {
    byId("groups").append(make("h3", {}, capitalise(key)), ...makeCountBars(Object.entries(group)));
  }
  return groups.length > 0;
}

/** Show numbers and texts as a list of pairs; return whether there are any. */
function showPairs(id, values) {
  const list = make("dl", { className: "pairs" });
  for (const [key, value] of Object.entries(values)) {
    if (value === null || typeof value === "object") continue;
    const words = typeof value === "number" ? formatNumber(value) : String(value);
    list.append(make("dt", {}, capitalise(key)), make("dd", { className: "number" }, words));
  }
  byId(id).append(list);
  show(byId(id), list.childElementCount > 0);
  return list.childElementCount > 0;
}

for (const id of ["retry", "reload"]) byId(id).onclick = () => location.reload();
start();
