"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const at = (id) => document.getElementById(id);
  // Cross-rack traffic: a view per cluster and kind of traffic.
  const chosen = (name, otherwise) => document.querySelector(`input[name="${name}"]:checked`)?.value ?? otherwise;
  const showView = () => {
    const [scope, kind] = [at("scope")?.value ?? "0", chosen("kind", null)];
    for (const view of document.querySelectorAll(".view")) {
      view.hidden = view.dataset.scope !== scope || (kind !== null && view.dataset.kind !== kind);
    }
    const names = [at("scope")?.selectedOptions[0].textContent,
      document.querySelector('input[name="kind"]:checked')?.nextElementSibling.textContent];
    at("chosen").textContent = names.filter(Boolean).join(", ");
  };
  const showMeasure = () => { at("traffic").dataset.measure = chosen("measure", "bytes"); };

  // The table of groups: the data is stored by column, and shown one page of rows at a time.
  const number = (digits) => new Intl.NumberFormat("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });
  const none = "–";
  const bytes = (size) => {
    const units = ["B", "kB", "MB", "GB", "TB", "PB", "EB"];
    let unit = 0;
    while (unit < units.length - 1 && Math.abs(size) >= 999.5) { size /= 1000; unit += 1; }
    const digits = unit === 0 ? 0 : size < 9.995 ? 2 : size < 99.95 ? 1 : 0;
    return `${number(digits).format(size)} ${units[unit]}`;
  };
  const money = (amount) => {
    if (amount === null) return none;
    if (amount < 0) return `-${money(-amount)}`;
    if (amount > 0 && amount < 0.005) return `<${data.currency}0.01`;
    if (amount >= 999500) return `${data.currency}${number(2).format(amount / 1e6)} M`;
    return data.currency + number(amount >= 99.995 ? 0 : 2).format(amount);
  };
  const percent = (share) => {
    if (share === null) return none;
    if (share > 0 && share < 0.0005) return "<0.1 %";
    if (share >= 0.9995 && share < 1) return ">99.9 %";
    return `${number(share === 0 || share === 1 ? 0 : 1).format(share * 100)} %`;
  };
  const PAGE = matchMedia("(max-width: 720px)").matches ? 10 : 25;
  const PRINTED = 100;
  const groups = data.groups;
  const state = { order: [], sort: null, down: true, first: 0, size: PAGE };
  const collator = new Intl.Collator("en", { numeric: true });
  const words = new Set(["group", "cluster", "change"]);
  const textOf = (column, row) => column === "group" ? groups.group[row]
    : column === "cluster" ? groups.clusters[groups.cluster[row]] : changeOf(row);
  // Changes of several groups are one text, in which {group} stands for the name.
  const changeOf = (row) => groups.changes[groups.change[row]].replaceAll("{group}", () => groups.group[row]);

  const arrange = () => {
    const query = at("filter").value.trim().toLowerCase();
    const cluster = at("filter-cluster")?.value ?? "";
    const saving = at("filter-saving").checked;
    const matching = groups.changes.map((text) => text.toLowerCase().includes(query));
    const order = [];
    for (let row = 0; row < groups.group.length; row += 1) {
      if (cluster !== "" && groups.cluster[row] !== Number(cluster)) continue;
      if (saving && !(groups.saving[row] > 0)) continue;
      if (query && !matching[groups.change[row]] && !groups.group[row].toLowerCase().includes(query)) continue;
      order.push(row);
    }
    const column = state.sort;
    if (column) {
      const way = state.down ? -1 : 1;
      // Array.sort is stable, so equal rows keep the order of the ranking. Unknown values come last.
      if (words.has(column)) order.sort((a, b) => way * collator.compare(textOf(column, a), textOf(column, b)));
      else order.sort((a, b) => {
        const [x, y] = [groups[column][a], groups[column][b]];
        if (x === null || y === null) return (x === null) - (y === null);
        return way * (x - y);
      });
    }
    state.order = order;
    state.first = 0;
    const sum = (values) => order.reduce((so_far, row) => so_far + (values[row] ?? 0), 0);
    const saved = sum(groups.saving);
    at("sums").textContent = `${money(sum(groups.now))} per month${saved > 0 ? `, of which ${money(saved)} can be saved` : ""}`;
    showGroups();
  };

  // Let long names break after separators, or after 24 characters without one.
  const breakable = (name) => (name.match(/[^._/:-]{0,24}[._/:-]*/gu) ?? [])
    .flatMap((part) => part ? [part, document.createElement("wbr")] : []);
  const columns = [
    ["group", "Group", (row) => groups.group[row]],
    ["cluster", "Cluster", (row) => groups.clusters[groups.cluster[row]]],
    ["bytes", "Read", (row) => bytes(groups.bytes[row])],
    ["crossing", "Cross-rack", (row) => {
      const [now, after] = [groups.crossing[row], groups.crossing_after[row]];
      return groups.saving[row] > 0 && after !== null ? `${percent(now)} → ${percent(after)}` : percent(now);
    }],
    ["now", "Per month", (row) => money(groups.now[row])],
    ["after", "After", (row) => money(groups.after[row])],
    ["saving", "Saving", (row) => groups.saving[row] > 0 ? money(groups.saving[row]) : none],
    ["change", "Change", changeOf],
    ["reliability", "Reliability", (row) => groups.levels[groups.reliability[row]][1]],
  ];
  const showGroups = () => {
    const heads = [...document.querySelectorAll("#group-table th")];
    const present = new Set(heads.map((head) => head.dataset.sort));
    const rows = state.order.slice(state.first, state.first + state.size).map((row) => {
      const line = document.createElement("tr");
      for (const [name, title, text] of columns) {
        if (!present.has(name)) continue;
        const cell = line.insertCell();
        cell.className = name;
        cell.dataset.name = title;
        if (["bytes", "crossing", "now", "after", "saving"].includes(name)) cell.classList.add("n");
        const value = text(row);
        if (value === none) cell.classList.add("none");
        if (name === "change" && !(groups.saving[row] > 0)) cell.classList.add("none");
        if (name === "reliability") {
          const [level, word, meaning] = groups.levels[groups.reliability[row]];
          const mark = document.createElement("span");
          mark.className = `level ${level}`;
          mark.textContent = word;
          mark.title = meaning;
          cell.append(mark);
        } else if (name === "group" || name === "cluster") cell.append(...breakable(value));
        else cell.textContent = value;
      }
      return line;
    });
    at("group-table").tBodies[0].replaceChildren(...rows);
    for (const head of heads) {
      if (head.dataset.sort === state.sort) head.setAttribute("aria-sort", state.down ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    }
    const [many, last] = [state.order.length, Math.min(state.first + state.size, state.order.length)];
    const whole = number(0);
    const of = many === groups.group.length ? "" : `, filtered from ${whole.format(groups.group.length)}`;
    at("shown").textContent = many === 0 ? `No group matches${of}`
      : `${whole.format(state.first + 1)} to ${whole.format(last)} of ${whole.format(many)} ${many === 1 ? "group" : "groups"}${of}`;
    at("previous").disabled = state.first === 0;
    at("next").disabled = last >= many;
  };
  const sortBy = (column, down) => {
    state.sort = column;
    state.down = down;
    if (at("sort-by").value !== (column ?? "")) at("sort-by").value = column ?? "";
    arrange();
  };
  const changePage = (by) => {
    state.first = Math.max(0, state.first + by * state.size);
    showGroups();
    at("group-panel").scrollIntoView({ block: "start" });
  };

  // The rows that match the filter, as comma-separated values. Spreadsheets take text that begins
  // with one of =+-@ for a formula, so that text gets an apostrophe.
  const download = () => {
    const cell = (value) => {
      const text = typeof value === "string" && /^[=+\-@\t\r]/.test(value) ? `'${value}` : String(value ?? "");
      return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
    };
    const names = ["cluster", "group", "bytes", "crossing_share", "crossing_share_after", "cost_per_month",
      "cost_per_month_after", "saving_per_month", "change", "reliability"];
    const lines = state.order.map((row) => [
      textOf("cluster", row), textOf("group", row), groups.bytes[row], groups.crossing[row],
      groups.crossing_after[row], groups.now[row], groups.after[row], groups.saving[row],
      textOf("change", row), groups.levels[groups.reliability[row]][0],
    ]);
    const csv = [names, ...lines].map((line) => `${line.map(cell).join(",")}\r\n`).join("");
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([csv], { type: "text/csv" }));
    link.download = "groups.csv";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60000);
  };

  const startGroups = () => {
    const option = (value, text) => Object.assign(document.createElement("option"), { value, textContent: text });
    groups.clusters.forEach((name, position) => at("filter-cluster")?.append(option(position, name)));
    at("sort-by").append(option("", "Ranking"), ...columns
      .filter(([name]) => document.querySelector(`#group-table th[data-sort="${name}"]`))
      .map(([name, title]) => option(name, title)));
    at("sort-by").addEventListener("change", (event) => {
      const column = event.target.value || null;
      sortBy(column, column !== null && !words.has(column));
    });
    for (const head of document.querySelectorAll("#group-table th")) {
      const column = head.dataset.sort;
      head.querySelector("button").addEventListener("click", () =>
        sortBy(column, state.sort === column ? !state.down : !words.has(column)));
    }
    at("group-controls").addEventListener("submit", (event) => event.preventDefault());
    for (const id of ["filter", "filter-cluster", "filter-saving"]) at(id)?.addEventListener("input", arrange);
    at("download").addEventListener("click", download);
    at("previous").addEventListener("click", () => changePage(-1));
    at("next").addEventListener("click", () => changePage(1));
    arrange();
  };

  for (const name of document.querySelectorAll(".name")) name.replaceChildren(...breakable(name.textContent));
  if (at("group-table")) startGroups();
  if (at("measure")) {
    showView();
    showMeasure();
    for (const id of ["scope", "kind"]) at(id)?.addEventListener("change", showView);
    at("measure").addEventListener("change", showMeasure);
  }

  // Printing uses light colours, and more rows per page.
  const setPrinting = (on) => {
    if (on) document.documentElement.dataset.theme = "print";
    else delete document.documentElement.dataset.theme;
    state.size = on ? PRINTED : PAGE;
    if (at("group-table")) showGroups();
  };
  addEventListener("beforeprint", () => setPrinting(true));
  addEventListener("afterprint", () => setPrinting(false));
  performance.mark("readable");
  document.documentElement.dataset.ready = "yes";
})();
