// The worker of a log: it reads the log, keeps its bytes, and answers with the visible rows. It starts a second worker for regular
// expressions, and can end that when an expression takes too long.
import { utf8Bytes } from "./bytes.ts";
import { follow, Sight, type Connection } from "./feed.ts";
import { Kind, Lines, lowerBound } from "./lines.ts";
import { markOf, type RawFrame } from "./marks.ts";
import { showRow, styleBefore, type Row } from "./row.ts";
import type { Style } from "./ansi.ts";
import { block, expression, matchesStream, searchBlock, type Block, type Query } from "./search.ts";
import type { Ask, Message, Stream } from "./wire.ts";
import { startWorker } from "./start.ts";

const expressionName = "expressions";
const guardMs = 2000;
const frameMs = 33; // between two states that change visible rows
const countMs = 200; // between two that change only the number of lines
const mostHits = 1_000_000;

if (self.name === expressionName) {
  self.onmessage = ({ data }: MessageEvent<{ block: Block; query: Query }>) => self.postMessage(searchBlock(data.block, data.query));
  self.postMessage("begun");
} else {
  serve();
}

function serve(): void {
  const lines = new Lines();
  const opened = new Set<number>();
  const sight = new Sight();
  let connection: Connection = { state: "opening" };
  let files = false;
  let stream: Stream = "both";
  let chosen: number[] = []; // rows of the chosen stream, unless it is both
  let chosenTo = 0;
  let view = { first: 0, count: 0, last: true };
  let sent = { rows: -1, size: -1 };
  let wantedLine = 0;
  let wake = () => {};
  let sought: Query | undefined;
  let found: RegExp | undefined;
  let searching = 0;
  let hits: number[] = [];
  let at: number | undefined; // the row of the last requested hit: the page may send two requests before it shows one

  const tell = (message: Message) => self.postMessage(message);
  const macrotask = tasks();

  const rowsShown = () => (stream === "both" ? lines.rows : chosen.length);
  const rowAt = (position: number) => (stream === "both" ? position : chosen[position]!);
  const positionOf = (row: number) => (stream === "both" ? row : lowerBound(chosen.length, (i) => chosen[i]! >= row));

  function choose(): void {
    if (stream === "both") return;
    // The last row can be added: its stream does not change.
    for (; chosenTo < lines.rows; chosenTo++) if (matchesStream(lines.kind(chosenTo), stream)) chosen.push(chosenTo);
  }

  // atView reports whether new rows may be visible.
  const atView = () => view.last || view.first + view.count >= sent.rows - 1;

  function flush(always = false): void {
    choose();
    const total = rowsShown();
    const grown = lines.size !== sent.size || lines.rows !== sent.rows;
    if (!grown && !always) return;
    tell({ is: "state", rows: total, lines: lines.lines, size: lines.size, connection });
    const touched = atView();
    sent = { rows: lines.rows, size: lines.size };
    if (touched || stream !== "both") show();
    const row = wantedLine ? lines.rowOf(wantedLine) : undefined;
    if (row !== undefined) {
      wantedLine = 0;
      tell({ is: "place", position: positionOf(row) });
    }
  }

  function show(): void {
    const total = rowsShown();
    const first = view.last ? Math.max(0, total - view.count) : Math.min(view.first, total);
    const to = Math.min(total, first + view.count);
    const rows: Row[] = [];
    const styles = new Map<Kind, Style>();
    for (let i = first; i < to; i++) {
      const row = rowAt(i);
      const kind = lines.kind(row);
      const style = styles.get(kind) ?? styleBefore(lines, row);
      const shown = showRow(lines, row, style, { found, files, open: (r) => opened.has(r) });
      styles.set(kind, shown.end);
      rows.push(shown.row);
    }
    tell({ is: "rows", first, rows });
  }

  let last = 0; // time of the last state
  let full = false;
  let result = "";
  const results = new TextDecoder("utf-8", { ignoreBOM: true });
  function frame(raw: RawFrame): void {
    if (raw.type === "stdout" || raw.type === "stderr") {
      const kind = raw.step === "build" ? Kind.build : raw.type === "stderr" ? Kind.stderr : Kind.stdout;
      if (full || lines.append(utf8Bytes(String(raw.data ?? ""), raw.encoding), kind)) return;
      full = true;
      lines.mark({ text: "This page keeps no more than 2 GiB of a log. Download the whole.", warn: true });
      return;
    }
    if (raw.type === "result") {
      // Lines of JSON, or a part of one.
      const whole = (result + results.decode(utf8Bytes(String(raw.data ?? ""), raw.encoding), { stream: true })).split("\n");
      result = whole.pop()!;
      for (const line of whole) tell({ is: "event", event: "result", data: line });
      return;
    }
    const mark = markOf(raw);
    if (mark) lines.mark(mark);
    if (raw.type === "event") tell({ is: "event", event: raw.event ?? "" });
  }

  let due: ReturnType<typeof setTimeout> | undefined;
  function flushNow(): void {
    clearTimeout(due);
    due = undefined;
    if (lines.size === sent.size && lines.rows === sent.rows) return; // an event alone does not delay the line that follows
    last = performance.now();
    flush();
  }

  let yielded = performance.now();
  function pause(): Promise<void> | undefined {
    const now = performance.now();
    if (due === undefined) {
      // Show the first data at once, and then once a frame.
      const every = atView() ? frameMs : countMs;
      if (now - last >= every) flushNow();
      else due = setTimeout(flushNow, last + every - now);
    }
    if (now - yielded < 8) return undefined;
    return macrotask().then(() => void (yielded = performance.now()));
  }

  function wait(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, ms);
      wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  function open(ask: Ask & { do: "open" }): void {
    files = ask.files;
    void follow({
      url: ask.url, headers: ask.headers, signal: new AbortController().signal, fetch: self.fetch.bind(self), wait, pause, frame, sight,
      changed: (now) => {
        connection = now;
        flush(true);
      },
    });
  }

  async function search(query: Query | undefined): Promise<void> {
    const turn = ++searching;
    sought = query;
    hits = [];
    at = undefined;
    found = undefined;
    const done = (problem?: string) => {
      tell({ is: "search", hits: hits.length, busy: false, problem });
      show();
    };
    if (!query?.text) return done();
    try {
      found = expression(query);
    } catch (error) {
      return done((error as Error).message.replace(/^Invalid regular expression: /, "No regular expression: "));
    }
    const worker = query.regexp ? new Guarded() : undefined;
    tell({ is: "search", hits: 0, busy: true });
    try {
      let reported = performance.now();
      for (let place = { row: 0, within: 0 }; turn === searching; ) {
        // A growing line is searched once it has ended, or the log has.
        const rest = lines.rows - place.row;
        if (rest <= (connection.state === "ended" || connection.state === "refused" ? 0 : 1)) {
          if (connection.state === "ended" || connection.state === "refused") break;
          if (reported > 0) done();
          reported = 0;
          await wait2(200);
          continue;
        }
        const next = block(lines, place);
        const rows = worker ? await worker.search(next.block, query) : searchBlock(next.block, query);
        if (turn !== searching) return;
        for (const one of rows) {
          const row = place.row + one;
          if (hits.at(-1) !== row && hits.length < mostHits && matchesStream(lines.kind(row), stream)) hits.push(row);
        }
        place = next.next;
        if (!worker) await macrotask();
        if (performance.now() - reported > 100) {
          tell({ is: "search", hits: hits.length, busy: reported > 0 });
          reported &&= performance.now();
        }
      }
      if (turn === searching) done();
    } catch (error) {
      if (turn !== searching) return;
      found = undefined;
      done((error as Error).message);
    } finally {
      worker?.end();
    }
  }
  const wait2 = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

  function hit(from: number, by: 1 | -1): void {
    if (hits.length === 0) return;
    const row = at ?? (from >= rowsShown() ? lines.rows : from < 0 ? -1 : rowAt(from));
    const next = by > 0 ? lowerBound(hits.length, (i) => hits[i]! > row) : lowerBound(hits.length, (i) => hits[i]! >= row) - 1;
    const nth = (next + hits.length) % hits.length; // around
    at = hits[nth]!;
    tell({ is: "place", position: positionOf(at), nth: nth + 1 });
  }

  self.onmessage = ({ data: ask }: MessageEvent<Ask>) => {
    switch (ask.do) {
      case "open":
        return open(ask);
      case "sight":
        return sight.set(ask.hidden);
      case "view":
        view = ask;
        return show();
      case "stream":
        stream = ask.stream;
        chosen = [];
        chosenTo = 0;
        flush(true);
        return void search(sought); // whose hits are of the stream
      case "search":
        return void search(ask.query);
      case "hit":
        return hit(ask.from, ask.by);
      case "line":
        wantedLine = ask.number;
        return flush(true);
      case "expand": {
        const row = lines.rowOf(ask.number);
        if (row !== undefined) opened.add(row);
        return show();
      }
      case "retry":
        return wake();
    }
  };
}

// Guarded searches with an expression in a separate worker.
class Guarded {
  #worker = startWorker(self.location.href, expressionName);
  // The worker's start takes time, too, which does not count for the expression.
  #begun = new Promise<void>((resolve, reject) => {
    this.#worker.onmessage = () => resolve();
    this.#worker.onerror = () => reject(new Error("The search has failed."));
  });

  async search(asked: Block, query: Query): Promise<number[]> {
    await this.#begun;
    return new Promise((resolve, reject) => {
      const late = setTimeout(() => {
        this.end();
        reject(new Error("The expression takes too long on this log. Try a simpler one."));
      }, guardMs);
      this.#worker.onmessage = ({ data }: MessageEvent<number[]>) => {
        clearTimeout(late);
        resolve(data);
      };
      this.#worker.onerror = () => {
        clearTimeout(late);
        reject(new Error("The search has failed."));
      };
      this.#worker.postMessage({ block: asked, query }, [asked.bytes.buffer, asked.starts.buffer]);
    });
  }

  end(): void {
    this.#worker.terminate();
  }
}

// tasks lets messages arrive in between: promises alone do not.
function tasks(): () => Promise<void> {
  const channel = new MessageChannel();
  const waiting: (() => void)[] = [];
  channel.port1.onmessage = () => waiting.shift()?.();
  return () => new Promise((resolve) => {
    waiting.push(resolve);
    channel.port2.postMessage(0);
  });
}
