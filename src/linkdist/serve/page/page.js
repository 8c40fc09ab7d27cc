// The page of `linkdist serve`: the model, a form for one node, an upload for many.

import {
  byId, capitalise, formatNumber, formatTime, make, makeBars, makeCountBars, makePairs, plural,
  show,
} from "./dom.js";
import { makeForm } from "./form.js";
import { renderMarkdown } from "./markdown.js";
import { addresses, modelInfo } from "./predict.js";
import { makeTable } from "./table.js";
import { formatScores, makeTask } from "./tasks.js";

async function start() {
  try {
    const model = await modelInfo();
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
  const { name, columns, features, refused, version, loaded } = model;
  const { words } = makeTask(model);
  document.title = `${name} · LinkDist`;
  byId("name").textContent = name;
  const basis = columns ? plural(columns.length, "column") : plural(features, "feature");
  byId("what").append(...words.what, ` from ${basis}.`);
  showLinks(model);
  byId("one").textContent = `${words.action} one node`;
  byId("many").textContent = `${words.action} a table`;
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

function showLinks({ has_report: hasReport }) {
  const { docs, openapi, report } = addresses;
  const links = [["HTTP reference", docs], ["OpenAPI document", openapi]];
  if (hasReport) links.push(["Report", report]);
  const shown = links.filter(([, href]) => href).map(([text, href]) => make("a", { href }, text));
  byId("links").append(...shown);
  show(byId("links"), shown.length > 0);
}

function makeTiles({ scores, data, columns, features, task }) {
  const tile = (term, value, text) => {
    const content = make("dd", {}, make("b", {}, value), make("span", {}, text));
    return make("div", {}, make("dt", {}, term), content);
  };
  const count = scores["validation nodes"];
  const basis = count ? `of ${plural(count, "validation node")}` : "of validation nodes";
  const tiles = formatScores(scores).map(([key, text]) => tile(capitalise(key), text, basis));
  if (data.nodes) {
    // The counts of several labels overlap, so their sum is not a number of nodes.
    const counts = task === "multilabel" ? [] : Object.values(data.labels ?? {});
    const known = counts.reduce((sum, count) => sum + count, 0);
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

function showAbout(model) {
  const { card, data, training, replicas, has_curve: hasCurve, has_report: hasReport } = model;
  if (hasCurve) {
    const text = card?.match(/!\[((?:\\.|[^\]\\])*)\]\(curve\.svg\)/)?.[1].replace(/\\(.)/g, "$1");
    byId("curve-image").alt = text ?? "Validation accuracy during training.";
    byId("curve-image").src = addresses.curve;
    byId("curve").href = addresses.curve;
    show(byId("curve"));
  }
  const hasGroups = model.task !== "regression" && showCounts(data, model.task);
  const hasTraining = showPairs("training", replicas > 1 ? { ...training, replicas } : training);
  const hasData = showPairs("data", data);
  show(byId("drawn"), hasCurve || hasGroups);
  show(byId("facts"), hasCurve || hasGroups || hasTraining || hasData);
  if (hasReport) byId("report-link").href = addresses.report;
  show(byId("report"), hasReport);
  if (card) {
    byId("card-text").append(...renderMarkdown(card));
    show(byId("card"));
  }
}

/** Show counts, such as the nodes of each class, as bars; return whether there are any. */
function showCounts(values, task) {
  const groups = Object.entries(values).filter(([, value]) => value && typeof value === "object");
  for (const [key, group] of groups) {
    const entries = Object.entries(group);
    // Several labels overlap, and not all nodes have known ones: their counts are shares of nothing.
    const bars = task === "multilabel" ? makePlainBars(entries) : makeCountBars(entries);
    byId("groups").append(make("h3", {}, capitalise(key)), ...bars);
  }
  return groups.length > 0;
}

function makePlainBars(entries) {
  const most = Math.max(1, ...entries.map(([, count]) => count));
  return makeBars(entries.map(([name, count]) => [name, count / most, formatNumber(count)]));
}

/** Show numbers and texts as a list of pairs; return whether there are any. */
function showPairs(id, values) {
  const textOf = (value) => (typeof value === "number" ? formatNumber(value) : String(value));
  const isPlain = ([, value]) => value !== null && typeof value !== "object";
  const shown = Object.entries(values).filter(isPlain);
  const list = makePairs(shown.map(([key, value]) => [capitalise(key), textOf(value)]));
  byId(id).append(list);
  show(byId(id), list.childElementCount > 0);
  return list.childElementCount > 0;
}

for (const id of ["retry", "reload"]) byId(id).onclick = () => location.reload();
start();
