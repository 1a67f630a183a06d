// The page's own script: the table of HPAs, one HPA with its timeline and moments, and the address.
// Text from the data is only ever set as text (`el`), never parsed as HTML.
"use strict";
(() => {
  const byId = (id) => document.getElementById(id);
  const read = (id) => JSON.parse(byId(id).textContent);
  const data = read("data");
  const charts = read("charts");
  const HOUR = 3600e3, DAY = 24 * HOUR, WEEK = 7 * DAY;

  // ---- elements -------------------------------------------------------------------------------

  function el(name, attributes = {}, ...children) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) {
      if (key === "on") for (const [event, call] of Object.entries(value)) made.addEventListener(event, call);
      else if (value !== null && value !== undefined && value !== false) made.setAttribute(key, value);
    }
    made.append(...children.flat().filter((child) => child !== null && child !== undefined));
    return made;
  }

  // Of one HPA: names that look alike are told apart by the key.
  const same = (a, b) => a.key.every((part, k) => part === b.key[k]);

  const grade = (text) => (text ? el("span", { class: `grade ${text.replaceAll(" ", "-")}` }, text) : "");
  const percent = (share) => (share === null || share === undefined ? "" : share === 0 ? "-"
    : share < 0.005 ? "<1%" : `${Math.round(share * 100) === 100 && share < 1 ? 99 : Math.round(share * 100)}%`);
  const decimal = (value, digits = 1) => (value === null || value === undefined ? ""
    : value.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits }));
  const time = (ms) => new Date(ms).toISOString().replace(".000Z", "Z");
  const clock = (text) => text.slice(0, 19).replace("T", " ");

  function duration(ms) {
    const minutes = Math.round(ms / 60e3);
    if (ms < 60e3) return `${Math.round(ms / 1000)} s`;
    return minutes < 60 ? `${minutes} m` : `${Math.floor(minutes / 60)} h${minutes % 60 ? ` ${minutes % 60} m` : ""}`;
  }

  // A single-quoted argument of a shell.
  const quoted = (text) => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\"'\"'")}'`);

  async function copy(text, button) {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      // A file that is opened directly may not have the clipboard: select and copy as by hand.
      const area = el("textarea", { readonly: "" });
      area.value = text;
      document.body.append(area);
      area.select();
      document.execCommand("copy");
      area.remove();
    }
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  }

  function command(text) {
    const button = el("button", { type: "button", class: "copy", on: { click: () => copy(text, button) } }, "Copy");
    return el("div", { class: "command" }, el("pre", {}, text), button);
  }

  // ---- table of HPAs --------------------------------------------------------------------------

  const severity = { high: 3, medium: 2, low: 1 };
  const columns = [
    ["HPA", "hpa", (h) => h.hpa, "namespace and name"],
    ["Target", "target", (h) => `${h.target_kind}/${h.target}`, "what it scales"],
    ["Range", "max_replicas", (h) => `${h.min_replicas}–${h.max_replicas}`, "minReplicas to maxReplicas", 1],
    ["Recorded", "applied_mean", (h) => decimal(h.applied_mean), "mean recorded size", 1],
    ["Replica-hours", "applied_replica_hours", (h) => decimal(h.applied_replica_hours, 0), "recorded size times time", 1],
    ["Match", "agreement_share", (h) => percent(h.agreement_share), "decisions with the recorded size", 1],
    ["Rescales", "recorded_changes", (h) => decimal(h.recorded_changes, 0), "recorded changes of size", 1],
    ["At min", "at_min_share", (h) => percent(h.at_min_share), "share of the time held by minReplicas", 1],
    ["At max", "at_max_share", (h) => percent(h.at_max_share), "share of the time held by maxReplicas", 1],
    ["Held", "held_share", (h) => percent(h.held_share), "share of the time held by a window, a policy or a disabled direction", 1],
    ["Failed", "invalid_share", (h) => percent(h.invalid_share), "share of the time with a failed metric", 1],
    ["Findings", "severity", (h) => (h.findings ? [grade(h.severity), ` ${h.findings}`] : ""), "worst severity, and their number"],
    ["Advice", "answer", (h) => h.answer || "", "what the advice is"],
  ].filter(([, key]) => key !== "answer" || data.advice.length);
  let sorted = { key: "severity", down: true };

  const sortValue = (hpa, key) => (key === "severity"
    ? (severity[hpa.severity] || 0) * 1000 + hpa.findings : hpa[key]);

  function compare(a, b) {
    const [x, y] = [sortValue(a, sorted.key), sortValue(b, sorted.key)];
    const none = (x === null) - (y === null);
    const order = none || (typeof x === "string" ? x.localeCompare(y, "en") : x - y);
    return (none ? order : sorted.down ? -order : order) || a.hpa.localeCompare(b.hpa, "en");
  }

  function shownHpas() {
    const words = byId("search").value.toLowerCase().split(/\s+/).filter(Boolean);
    const [namespace, worst, answer] = ["namespace", "severity", "answer"].map((id) => byId(id).value);
    return data.hpas.filter((hpa) => {
      const text = `${hpa.hpa} ${hpa.target} ${hpa.metric || ""}`.toLowerCase();
      return words.every((word) => text.includes(word))
        && (!namespace || hpa.namespace === namespace)
        && (!worst || (hpa.severity || "none") === worst)
        && (!answer || hpa.answer === answer);
    }).sort(compare);
  }

  function head([title, key, , meaning, right]) {
    const active = sorted.key === key;
    const sort = () => {
      sorted = { key, down: active ? !sorted.down : key !== "hpa" && key !== "target" };
      drawTable();
      byId("hpas").querySelector(`[data-key="${key}"]`).focus();
    };
    return el("th", {
      scope: "col", title: meaning, class: right ? "right" : null,
      "aria-sort": active ? (sorted.down ? "descending" : "ascending") : "none",
    }, el("button", { type: "button", "data-key": key, on: { click: sort } },
      `${title}${active ? (sorted.down ? " ↓" : " ↑") : ""}`));
  }

  function drawTable() {
    const shown = shownHpas();
    const rows = shown.map((hpa) => {
      const cells = columns.slice(1).map(([, , cell, , right]) => el("td", { class: right ? "right" : null }, cell(hpa)));
      const link = el("a", { class: "hpa", href: address(hpa.hpa) }, hpa.hpa);
      const open = (event) => { if (!event.target.closest("a")) location.hash = address(hpa.hpa); };
      return el("tr", { on: { click: open } }, el("th", { scope: "row" }, link), cells);
    });
    byId("hpas").replaceChildren(el("thead", {}, el("tr", {}, columns.map(head))), el("tbody", {}, rows));
    byId("shown").textContent = `${shown.length} of ${data.hpas.length}`;
  }

  // ---- charts ---------------------------------------------------------------------------------

  const drawn = new Map(); // by the id of the element: what draws it again
  const schema = "https://vega.github.io/schema/vega-lite/v6.json";
  const axis = { title: "time (UTC)", labelOverlap: true, labelExpr: charts.tick };
  const replicas = { title: "replicas", tickMinStep: 1, format: "d", minExtent: 34 };
  const utc = { field: "at", type: "temporal", scale: { type: "utc" } };

  // The recorded replicas of the whole fleet.
  const fleetChart = {
    $schema: schema,
    data: { name: "fleet" },
    height: 120,
    mark: { type: "area", interpolate: "step-after", line: { color: charts.blue }, color: charts.sky, opacity: 0.5 },
    encoding: { x: { ...utc, axis }, y: { field: "size", type: "quantitative", axis: replicas } },
  };

  // Sizes between two times as lines: name, color, width, dash of each.
  function sizesView(lines, from, to, top, narrow, axis) {
    const x = { ...utc, scale: { type: "utc", domain: { signal: `[${from}, ${to}]` }, nice: false }, axis };
    const scale = { domain: lines.map(([name]) => name), range: lines.map(([, color]) => color) };
    const legend = { orient: "top", title: null, columns: narrow ? 2 : 5, symbolType: "stroke", symbolOpacity: 1, symbolStrokeWidth: 2.5, labelLimit: 260 };
    const encoding = {
      x,
      y: { field: "high", type: "quantitative", axis: replicas, scale: { domain: [0, top], nice: false } },
      color: { field: "line", type: "nominal", scale, legend },
    };
    const shape = { interpolate: "step-after", clip: true };
    return { height: 240, layer: [
      { data: { name: "bands" }, mark: { type: "area", ...shape, opacity: 0.35 }, encoding: { ...encoding, y2: { field: "low" } } },
      ...lines.map(([name, , width, dash]) => ({
        data: { name: "lines" }, encoding,
        transform: [{ filter: `datum.line == '${name}'` }],
        mark: { type: "line", ...shape, strokeWidth: width, strokeDash: dash },
      })),
      { data: { name: "mark" }, mark: { type: "rule", aria: false, color: charts.lines.proposal[1], strokeWidth: 1.5, clip: true }, encoding: { x } },
    ] };
  }

  // An HPA's sizes between two times, and below a strip of the rules that made them.
  function timelineChart(from, to, top, rules, narrow) {
    const x = { ...utc, scale: { type: "utc", domain: { signal: `[${from}, ${to}]` }, nice: false }, axis };
    return {
      $schema: schema,
      spacing: 8,
      resolve: { scale: { color: "independent" } },
      vconcat: [
        sizesView(Object.values(charts.lines), from, to, top, narrow, { title: null, labels: false, ticks: false }),
        { height: 14, data: { name: "rules" }, mark: { type: "rect", clip: true }, encoding: {
          x,
          x2: { field: "until" },
          color: {
            field: "rule", type: "nominal",
            scale: { domain: rules, range: rules.map((rule) => charts.rules[rule] || charts.quiet) },
            legend: { orient: "bottom", title: "rule that made the decision", columns: narrow ? 2 : 6 },
          },
          tooltip: [{ field: "rule" }],
        } },
      ],
    };
  }

  // Draw a chart as wide as its element, in the colors of the page.
  async function draw(id, spec, datasets, margin = 62) {
    const place = byId(id);
    if (!place || !place.clientWidth) return;
    // Colors of the page's style: a chart follows when that becomes dark, or is printed.
    const [ink, quiet, line] = ["var(--ink)", "var(--quiet)", "var(--line)"];
    const width = Math.max(place.clientWidth - margin, 160);
    const chart = spec(place.clientWidth < 560);
    const whole = chart.vconcat ? { ...chart, vconcat: chart.vconcat.map((part) => ({ ...part, width })) } : { ...chart, width };
    const config = {
      background: null, view: { stroke: null }, font: "system-ui, sans-serif",
      axis: { gridColor: line, domainColor: line, tickColor: line, labelColor: quiet, titleColor: quiet, titleFontWeight: "normal" },
      legend: { labelColor: quiet, titleColor: quiet, titleFontWeight: "normal", labelLimit: 200 },
      rule: { color: ink },
    };
    // Lines in the colors of ink and of quiet text are those of the page.
    const colored = JSON.parse(JSON.stringify(whole).replaceAll(charts.ink, ink).replaceAll(charts.quiet, quiet));
    await vegaEmbed(place, { ...colored, datasets, config }, { renderer: "svg", actions: false });
    drawn.set(id, () => draw(id, spec, datasets, margin));
  }

  function drawFleet() {
    const { from_ms: start, width_ms: width, values } = data.fleet;
    const rows = values.map((size, k) => ({ at: start + k * width, size }));
    return draw("fleet-chart", () => fleetChart, { fleet: rows });
  }

  // Sizes without maxReplicas, and where it is.
  function drawPlan() {
    const rows = data.plan_sizes.filter((row) => row.max !== null);
    if (!rows.length) return;
    const y = { field: "hpa", type: "nominal", sort: null, axis: { title: null, labelLimit: 120, minExtent: 120 } };
    const x = (field) => ({ field, type: "quantitative", scale: { type: "symlog" }, axis: { title: "replicas", format: ",d", labelOverlap: true } });
    const layer = [
      { mark: { type: "rule", strokeWidth: 6, color: charts.sky }, encoding: { x: x("p50"), x2: { field: "max" } } },
      { mark: { type: "point", filled: true, size: 50, opacity: 1, color: charts.blue }, encoding: { x: x("p95") } },
      { mark: { type: "tick", thickness: 2.5, color: charts.ink }, encoding: { x: x("limit") } },
    ].map((part) => ({ ...part, encoding: { ...part.encoding, y } }));
    draw("plan-chart", () => ({ $schema: schema, data: { name: "plan" }, height: { step: 20 }, layer }), { plan: rows }, 150);
  }

  // The names of the lines, in the chart's words.
  const named = Object.fromEntries(Object.entries({ ...charts.lines, ...charts.simulated }).map(([key, [name]]) => [key, name]));

  // Rows of an HPA's lines between two times; a line begins with the value it has there.
  function rowsOf(timeline, from, to) {
    const lines = [], bands = [];
    const at = (offset) => timeline.from_ms + offset * timeline.unit_ms;
    for (const [name, line] of Object.entries(timeline.lines)) {
      const step = line.columns ? 3 : 2;
      let last = null;
      const put = (ms, k) => {
        const [low, high] = [line.values[k + 1], line.values[k + step - 1]];
        lines.push({ at: ms, high, line: named[name] });
        if (line.columns) bands.push({ at: ms, low, high, line: named[name] });
      };
      for (let k = 0; k < line.values.length; k += step) {
        const ms = at(line.values[k]);
        if (ms > to) break;
        if (ms >= from) {
          if (last !== null && last < from) put(from, k - step);
          put(ms, k);
        }
        last = ms;
      }
      if (last === null) continue;
      let k = line.values.length - step;
      while (k > 0 && at(line.values[k]) > to) k -= step;
      if (last < from) put(from, k);
      put(Math.min(to, at(timeline.end)), k);
    }
    const rules = [];
    for (let k = 0; k < timeline.rules.length; k += 2) {
      const end = k + 2 < timeline.rules.length ? timeline.rules[k + 2] : timeline.end;
      const [begin, until] = [Math.max(at(timeline.rules[k]), from), Math.min(at(end), to)];
      if (begin < until) rules.push({ at: begin, until, rule: timeline.rules[k + 1] });
    }
    return { lines, bands, rules };
  }

  const order = Object.keys(data.rules);

  function drawTimeline(shown) {
    const { timeline, from, to, mark } = shown;
    const rows = rowsOf(timeline, from, to);
    // maxReplicas far above all that was reached would flatten the other lines.
    const sizes = rows.lines.filter((row) => row.line !== named.max_replicas && row.high !== null).map((row) => row.high);
    const reached = Math.max(1, ...sizes);
    const near = rows.lines.filter((row) => row.line === named.max_replicas && row.high <= 1.35 * reached).map((row) => row.high);
    const top = Math.max(reached, ...near) * 1.08;
    drawSimulated(shown);
    const rules = [...new Set(rows.rules.map((row) => row.rule))].sort((a, b) => order.indexOf(a) - order.indexOf(b));
    const spec = (narrow) => timelineChart(from, to, top, rules, narrow);
    return draw("timeline", spec, { ...rows, mark: mark === null ? [] : [{ at: mark }] });
  }

  // Before and after: what was recorded, and both settings simulated on the same work.
  function drawSimulated({ timeline, simulated, from, to, mark }) {
    if (!simulated) return;
    const { applied } = timeline.lines;
    const parts = [{ ...timeline, lines: applied ? { applied } : {} }, simulated].map((part) => rowsOf(part, from, to));
    const [lines, bands] = ["lines", "bands"].map((name) => parts.flatMap((part) => part[name]));
    const top = Math.max(1, ...lines.map((row) => row.high)) * 1.08;
    const spec = (narrow) => ({ $schema: schema, ...sizesView(Object.values(charts.simulated), from, to, top, narrow, axis) });
    draw("simulated", spec, { lines, bands, mark: mark === null ? [] : [{ at: mark }] });
  }

  // ---- one HPA --------------------------------------------------------------------------------

  const address = (hpa, t) => `#hpa=${encodeURIComponent(hpa).replaceAll("%2F", "/")}${t ? `&t=${t}` : ""}`;

  const explain = (hpa, t) => `${data.explain} ${quoted(hpa)} --at ${t} ${data.explain_options}`.trim();

  // What led to a decision: what the metrics ask for, then each rule that changed the number.
  function arithmetic(m) {
    if (m.error) return `${data.rules[m.binding]}: ${m.error}`;
    const steps = [];
    if (m.ratio !== null && m.proposal !== null) {
      const exact = Math.ceil(m.replicas * m.ratio - 1e-3) === m.proposal && m.binding !== "tolerance";
      const sum = exact ? `ceil(${m.replicas} × ${m.ratio.toFixed(3)}) = ${m.proposal}` : `ratio ${m.ratio.toFixed(3)}, so ${m.proposal}`;
      steps.push(`${m.metric || "the metrics"}: ${sum}`);
    } else if (m.proposal !== null) steps.push(`the metrics ask for ${m.proposal}`);
    if (m.stabilized !== null && m.stabilized !== m.proposal) steps.push(`stabilized: ${m.stabilized}`);
    if (m.limited !== null && m.limited !== m.stabilized) steps.push(`within policies and ${m.min_replicas}–${m.max_replicas}: ${m.limited}`);
    steps.push(`decision ${m.replicas} → ${m.desired}: ${data.rules[m.binding]}`);
    return steps.join("; ");
  }

  function momentTitle(m) {
    if (m.kind === "rescale") return `rescale ${m.replicas} → ${m.applied}`;
    const length = duration(Date.parse(m.until) - Date.parse(m.ts));
    return m.kind === "hold" ? `held for ${length}` : `failed for ${length}`;
  }

  function momentTable(hpa, moments, t) {
    const rows = moments.rows.map((row) => Object.fromEntries(data.moment_fields.map((field, k) => [field, row[k]])));
    const body = rows.map((m) => el("tr", { "aria-selected": String(m.ts === t) },
      el("th", { scope: "row" }, el("a", { href: address(hpa.hpa, m.ts) }, clock(m.ts))),
      el("td", {}, momentTitle(m)), el("td", {}, el("code", {}, m.binding)), el("td", {}, arithmetic(m))));
    const left = moments.all - rows.length;
    return [
      el("h3", {}, `Moments (${rows.length}${left > 0 ? ` of ${moments.all}` : ""})`),
      el("p", { class: "quiet" }, `Recorded rescales, rules that held the size for an hour or longer, and failures.${data.explain ? " Any other moment: the command below with its time." : ""}`),
      el("div", { class: "scroll moments", tabindex: "0", role: "region", "aria-label": "Moments" }, el("table", {},
        el("thead", {}, el("tr", {}, ["Time (UTC)", "What", "Rule", "Arithmetic"].map((name) => el("th", { scope: "col" }, name)))),
        el("tbody", {}, body))),
    ];
  }

  function adviceOf(hpa) {
    const item = data.advice.find((one) => same(one, hpa));
    if (!item) return [];
    const list = (title, rows) => (rows.length ? [el("h3", {}, title), el("ul", {}, rows.map((row) => el("li", {}, row)))] : []);
    const measures = ["cost", "core_hours", "pod_hours", "saturated_minutes", "short_pod_hours", "rescales", "at_max_minutes"]
      .filter((name) => item.today[name] !== null && item.today[name] !== undefined);
    const table = measures.length ? el("div", { class: "scroll" }, el("table", {},
      el("thead", {}, el("tr", {}, ["In the judged blocks", "Today (recorded)", "Recommended"].map((name, k) => el("th", { scope: "col", class: k ? "right" : null }, name)))),
      el("tbody", {}, measures.map((name) => el("tr", {}, el("th", { scope: "row" }, name.replaceAll("_", " ")),
        el("td", { class: "right" }, decimal(item.today[name]) + (name in item.recorded ? ` (${decimal(item.recorded[name])})` : "")), el("td", { class: "right" }, decimal(item.after[name]))))))) : "";
    return el("div", { class: "sure" },
      el("h3", {}, `Advice: ${item.answer} `, grade(item.confidence)),
      el("p", {}, el("strong", {}, item.changes.join(", "))),
      el("ul", {}, item.reasons.map((row) => el("li", {}, row))), table,
      item.simulated ? [el("h3", {}, "Before and after"),
        el("p", { class: "quiet" }, "The times above: recorded, and today's and the recommended settings simulated on the same work."),
        el("div", { id: "simulated", role: "img", "aria-label": `Replicas of ${hpa.hpa}: recorded, and under today's and the recommended settings; their sums are in the table above` })] : "",
      list("Doubts", item.doubts), list("Surer with", item.surer),
      item.withheld ? el("p", {}, `No patch: ${item.withheld}`) : "",
      item.patch ? [el("h3", {}, "Patch"), el("details", {}, el("summary", {}, "YAML, with its evidence"), el("pre", {}, item.patch)),
        el("p", { class: "quiet" }, "Apply it:"), command(item.apply),
        el("p", { class: "quiet" }, "Take it back:"), command(item.rollback)] : "");
  }

  let shown = null; // the HPA that is open: its timeline and the stretch of it that is drawn

  function stretch(length, around) {
    const { timeline } = shown;
    const [low, high] = [timeline.from_ms, timeline.from_ms + timeline.end * timeline.unit_ms];
    const size = Math.min(length, high - low);
    const from = Math.min(Math.max(around - size / 2, low), high - size);
    Object.assign(shown, { length, from, to: from + size, low, high });
  }

  function ranges() {
    const choices = [["All", Infinity], ["Week", WEEK], ["Day", DAY], ["Hour", HOUR]];
    const middle = () => (shown.mark ?? (shown.from + shown.to) / 2);
    const redraw = () => { place.replaceWith(ranges()); drawTimeline(shown); };
    const move = (way) => { shown.mark = null; stretch(shown.length, (shown.from + shown.to) / 2 + way * (shown.to - shown.from)); redraw(); };
    const place = el("div", { class: "controls" },
      choices.map(([title, length]) => el("button", {
        type: "button", "aria-pressed": String(shown.length === length),
        on: { click: () => { stretch(length, middle()); redraw(); } },
      }, title)),
      el("button", { type: "button", "aria-label": "Earlier", on: { click: () => move(-1) } }, "←"),
      el("button", { type: "button", "aria-label": "Later", on: { click: () => move(1) } }, "→"),
      el("span", { class: "quiet" }, `${clock(time(shown.from))} to ${clock(time(shown.to))}`));
    return place;
  }

  function openHpa(name, t) {
    const view = byId("view");
    const index = data.hpas.findIndex((hpa) => hpa.hpa === name);
    if (index < 0) {
      view.replaceChildren(el("h2", {}, "No such HPA"), el("p", {}, `${name}: the report has no HPA of that name.`));
      view.hidden = false;
      return;
    }
    const hpa = data.hpas[index];
    const timeline = read(`timelines-${index}`);
    const mark = t && !Number.isNaN(Date.parse(t)) ? Date.parse(t) : null;
    const findings = data.findings.filter((item) => same(item, hpa));
    const close = () => { location.hash = "#fleet"; };
    view.hidden = false;
    const parts = [
      el("div", { class: "bar" }, el("h2", { tabindex: "-1" }, hpa.hpa),
        el("button", { type: "button", on: { click: close } }, "Close")),
      el("p", { class: "quiet" }, `${hpa.target_kind}/${hpa.target} · ${hpa.min_replicas} to ${hpa.max_replicas} replicas · ${decimal(hpa.applied_mean)} on average · ${decimal(hpa.recorded_changes, 0)} rescales · ${percent(hpa.agreement_share) || "no"} of the decisions as recorded`),
      findings.length ? el("ul", {}, findings.map((item) => el("li", {}, grade(item.severity), ` ${item.why}. `, el("span", { class: "quiet" }, item.fix)))) : el("p", { class: "quiet" }, "No findings."),
    ];
    if (timeline) {
      shown = { timeline, mark, simulated: data.advice.find((one) => same(one, hpa))?.simulated };
      stretch(mark === null ? Infinity : DAY, mark ?? timeline.from_ms);
      const label = `Timeline of ${hpa.hpa}: recorded and decided replicas, what the metrics ask for, bounds; its moments are in the table below`;
      parts.push(ranges(), el("div", { id: "timeline", role: "img", "aria-label": label }),
        momentTable(hpa, read(`moments-${index}`), t));
      if (data.explain) parts.push(el("h3", {}, "Any decision"), command(explain(hpa.hpa, t || time(timeline.from_ms + (timeline.end - 1) * timeline.unit_ms))));
    }
    parts.push(adviceOf(hpa));
    view.replaceChildren(...parts.flat(Infinity).filter(Boolean));
    if (timeline) drawTimeline(shown);
    const row = view.querySelector('[aria-selected="true"]');
    if (row) row.closest(".moments").scrollTop = row.offsetTop - 60;
    view.scrollIntoView();
    view.querySelector("h2").focus({ preventScroll: true });
  }

  // ---- the address and the rest ---------------------------------------------------------------

  function follow() {
    const asked = new URLSearchParams(location.hash.slice(1).replaceAll("+", "%2B"));
    if (asked.has("hpa")) openHpa(asked.get("hpa"), asked.get("t"));
    else byId("view").hidden = true;
  }

  function fill(id, values) {
    for (const value of [...new Set(values.filter(Boolean))].sort()) byId(id).append(el("option", { value }, value));
  }

  function save() {
    const count = data.hpas.length;
    const parts = (name) => Array.from({ length: count }, (_, k) => read(`${name}-${k}`));
    const text = JSON.stringify({ ...data, timelines: parts("timelines"), moments: parts("moments") });
    const link = el("a", { href: URL.createObjectURL(new Blob([text], { type: "application/json" })), download: "report.json" });
    link.click();
    URL.revokeObjectURL(link.href);
  }

  for (const list of document.querySelectorAll(".entries")) list.classList.add("short");
  for (const button of document.querySelectorAll("button.all")) {
    button.addEventListener("click", () => { button.previousElementSibling.classList.remove("short"); button.remove(); });
  }
  for (const button of document.querySelectorAll("button[data-copy]")) {
    button.addEventListener("click", () => copy(button.dataset.copy, button));
  }
  fill("namespace", data.hpas.map((hpa) => hpa.namespace));
  fill("answer", data.hpas.map((hpa) => hpa.answer));
  if (!data.advice.length) byId("answer").closest("label").hidden = true;
  for (const id of ["search", "namespace", "severity", "answer"]) byId(id).addEventListener("input", drawTable);
  byId("save").addEventListener("click", save);
  addEventListener("hashchange", follow);
  addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !byId("view").hidden) location.hash = "#fleet";
    if (event.key === "/" && !/INPUT|SELECT|TEXTAREA/.test(event.target.tagName)) { event.preventDefault(); byId("search").focus(); }
  });
  let waiting = 0;
  const redraw = () => { clearTimeout(waiting); waiting = setTimeout(() => drawn.forEach((again) => again()), 150); };
  addEventListener("resize", redraw);
  drawTable();
  drawFleet();
  drawPlan();
  follow();
})();
