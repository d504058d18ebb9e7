"use strict";
(() => {
  const source = document.getElementById("encounters-data");

  // A link into folded text unfolds it; a printed page hides nothing.
  const unfold = () => {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target || !target.closest("details")) return;
    for (let fold = target; fold; fold = fold.parentElement) if (fold.tagName === "DETAILS") fold.open = true;
    target.scrollIntoView();
  };
  addEventListener("beforeprint", () => {
    for (const details of document.querySelectorAll("details")) details.open = true;
  });
  addEventListener("hashchange", unfold);
  unfold();
  if (!source) return;

  const { tasks, records } = JSON.parse(source.textContent);
  const pane = document.getElementById("encounter");
  const chooser = (name) => document.getElementById("choose-" + name);
  const words = (name) => String(name).replaceAll("_", " ");
  const signed = (x, digits = 3) =>
    x === null ? "–" : (x < 0 ? "−" : "+") + Math.abs(x).toFixed(digits);

  /** An element; text never becomes markup. */
  const el = (tag, css, ...children) => {
    const node = document.createElement(tag);
    if (css) node.className = css;
    node.append(...children.filter((child) => child !== null));
    return node;
  };
  const figure = (name, value, css = "") => el("span", css, name + " ", el("b", "", value));

  const decision = (task, name) => {
    const known = Object.hasOwn(task.decisions, name) ? task.decisions[name] : null;
    const pill = el("span", "pill", words(name));
    if (known) { pill.style.background = known.colour; pill.style.color = known.ink; }
    return pill;
  };
  const meaning = (table, name) =>
    table && Object.hasOwn(table, name) ? (table[name].text || table[name]) : "";

  /** An action given as "ask x" or "commit y", in words, with the answer where there is one. */
  const action = (task, text, answer) => {
    const [verb, ...rest] = text.split(" ");
    const name = rest.join(" ");
    const node = el("span", "act", verb + " ", verb === "commit" ? decision(task, name) : words(name));
    if (answer !== undefined) node.append(answer ? " → yes" : " → no");
    return [node, el("span", "say", meaning(verb === "ask" ? task.findings : task.decisions, name))];
  };
  const played = (turn) =>
    "ask" in turn ? "ask " + turn.ask : "commit" in turn ? "commit " + turn.commit : "invalid turn";

  const beliefBar = (task, belief) => {
    const bar = el("div", "bar");
    bar.setAttribute("role", "img");
    const named = belief.map((p, i) => [p, task.states[i]]);
    const tint = (high, i) => high
      ? `hsl(2 48% ${44 + 9 * (i % 3)}%)` : `hsl(208 24% ${44 + (38 * i) / belief.length}%)`;
    named.forEach(([p, state], i) => {
      const part = el("span", "");
      part.style.flexGrow = p;
      part.style.background = tint(state.high, i);
      part.title = `${state.text}: ${(100 * p).toFixed(1)} %`;
      bar.append(part);
    });
    const likeliest = [...belief].sort((a, b) => b - a)[Math.min(3, belief.length) - 1];
    const legend = el("div", "numbers", "believed before this turn:");
    named.forEach(([p, state], i) => {
      if (p < likeliest || !p) return;
      const swatch = el("i", "swatch");
      swatch.style.background = tint(state.high, i);
      legend.append(el("span", "", swatch, `${words(state.id)} `, el("b", "", `${(100 * p).toFixed(0)} %`)));
    });
    bar.setAttribute("aria-label", legend.textContent);
    return [bar, legend];
  };

  const turnItem = (task, turn, number) => {
    const item = el("li", "turn", el("span", "at", String(number)));
    const mine = el("div", "", el("span", "label", "the policy"));
    if ("invalid" in turn) mine.append(el("span", "act", "invalid turn"), el("span", "say", turn.invalid));
    else mine.append(...action(task, played(turn), turn.ask === undefined ? undefined : turn.answer));
    item.append(mine);
    const below = el("div", "under");
    if (turn.best) {
      const oracle = el("div", "oracle", el("span", "label", "the oracle, knowing the same"));
      if (turn.same) oracle.append(el("span", "agree", "✓ the same"));
      else oracle.append(...action(task, turn.best));
      item.append(oracle);
      below.append(...beliefBar(task, turn.belief), el("div", "numbers",
        figure("V*", signed(turn.value)), figure("Q* of this turn", signed(turn.q)),
        figure("regret", turn.regret.toFixed(3), turn.regret > 1e-4 ? "bad" : ""),
        figure("net VOI of the best ask", signed(turn.voi)),
        "ask" in turn ? figure("entropy drop", signed(turn.nats) + " nats") : null,
        figure("best decision so far", words(turn.preferred)),
        turn.changed ? figure("", "the answer changes it") : null));
    }
    if (turn.raw) below.append(el("div", "raw", turn.raw));
    item.append(below);
    return item;
  };

  const unknownTable = (unknown) => {
    const table = el("table", "");
    table.append(el("caption", "", "Findings not seen at the end, and the best decision had each been known"));
    const head = el("tr", "");
    for (const name of ["finding", "P(present) %", "if present", "if absent", "changes the decision"]) {
      const cell = el("th", name === "finding" ? "" : "text", name);
      cell.scope = "col";
      head.append(cell);
    }
    table.append(el("thead", "", head));
    const body = el("tbody", "");
    for (const gap of unknown) {
      const name = el("th", "", words(gap.finding));
      name.scope = "row";
      body.append(el("tr", "", name, el("td", "text", (100 * gap.chance).toFixed(1)),
        el("td", "text", words(gap.present)), el("td", "text", words(gap.absent)),
        el("td", "text", gap.changes ? "yes" : "no")));
    }
    table.append(body);
    const scroll = el("div", "scroll", table);
    scroll.tabIndex = 0;
    scroll.setAttribute("role", "region");
    scroll.setAttribute("aria-label", "What was unknown");
    return scroll;
  };

  const show = (number) => {
    const record = records[number];
    const task = tasks[record.task];
    const parts = [el("h3", "", `${record.policy} on ${words(task.name)}, case ${record.case}`),
      el("p", "quiet", meaning(task.families, record.family) || words(record.family))];
    const facts = el("ul", "facts");
    const fact = (...children) => facts.append(el("li", "", ...children));
    const state = record.state && task.states && task.states.find((s) => s.id === record.state);
    fact(figure("hidden state", state ? state.text : record.state ? words(record.state) : "not recorded"));
    if (record.group) fact(figure("risk group", words(record.group)));
    fact(figure(record.expected ? "expected reward" : "reward", signed(record.reward)));
    if (record.regret !== null) fact(figure("regret", record.regret.toFixed(3)));
    if (record.flags.length) fact(figure("example of", record.flags.map(words).join(", ")));
    parts.push(facts);
    const initial = Object.entries(record.initial);
    if (initial.length) parts.push(el("p", "", "Shown at the start: " +
      initial.map(([name, present]) => words(name) + (present ? " yes" : " no")).join(", ")));
    parts.push(el("ol", "turns", ...record.turns.map((turn, i) => turnItem(task, turn, i + 1))));
    if (!record.turns.some((turn) => "commit" in turn)) parts.push(el("p", "", "The turns ran out: no decision."));
    if (record.oracle) {
      parts.push(el("h4", "", "The oracle on the same patient"),
        el("p", "", record.oracle.path.map(words).join(", "), ". Reward ", el("b", "", signed(record.oracle.reward)), "."));
    }
    if (record.unknown && record.unknown.length) {
      parts.push(el("h4", "", "What was still unknown"), unknownTable(record.unknown));
    }
    pane.replaceChildren(...parts);
    pane.dataset.number = number;
  };

  const fill = (select, options) => select.replaceChildren(...options.map(([value, text]) => {
    const option = el("option", "", text);
    option.value = value;
    return option;
  }));
  const policyKey = (record) => JSON.stringify([record.policy, record.split]);
  const choose = (number) => {
    const record = records[number];
    fill(chooser("task"), Object.entries(tasks).map(([key, task]) => [key, words(task.name)]));
    chooser("task").value = record.task;
    const here = records.map((r, i) => [r, i]).filter(([r]) => r.task === record.task);
    const policies = new Map(here.map(([r]) =>
      [policyKey(r), r.split ? `${r.policy} (${r.split})` : r.policy]));
    fill(chooser("policy"), [...policies]);
    chooser("policy").value = policyKey(record);
    const cases = here.filter(([r]) => policyKey(r) === policyKey(record));
    fill(chooser("case"), cases.map(([r, i]) =>
      [i, r.case + (r.flags.length ? " · " + r.flags.map(words).join(", ") : "")]));
    chooser("case").value = number;
    show(number);
  };
  const go = (number) => {
    history.replaceState(null, "", "#encounter-" + number);
    choose(number);
  };
  const first = (wanted) => records.findIndex(wanted);
  chooser("task").addEventListener("change", (event) => {
    const at = first((r) => r.task === event.target.value);
    if (at >= 0) go(at);
  });
  chooser("policy").addEventListener("change", (event) =>
    go(first((r) => r.task === chooser("task").value && policyKey(r) === event.target.value)));
  chooser("case").addEventListener("change", (event) => go(Number(event.target.value)));
  const step = (by) => go((Number(pane.dataset.number) + by + records.length) % records.length);
  document.getElementById("previous").addEventListener("click", () => step(-1));
  document.getElementById("next").addEventListener("click", () => step(1));

  const fromHash = (move) => {
    const match = /^#encounter-(\d+)$/.exec(location.hash);
    if (!match || Number(match[1]) >= records.length) return false;
    choose(Number(match[1]));
    if (move) { pane.scrollIntoView(); pane.focus({ preventScroll: true }); }
    return true;
  };
  addEventListener("hashchange", () => fromHash(true));
  if (!fromHash(true)) choose(0);
})();
