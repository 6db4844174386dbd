// An open notebook: its cells, and the interpreter that executes them.
import type { Session } from "belljar-sdk";
import { api } from "../../../client.svelte.ts";
import { baseOf } from "../name.ts";
import { askedIn, emptyCell, outputIn, parse, serialize, type Language, type Output, type SavedBook, type SavedCell } from "./format.ts";

// The log of the run has the rest of a longer output.
const mostPrinted = 256 << 10;

// The interval of redraws: a program may print faster than a page can draw.
const drawMs = 50;

export class Cell {
  readonly id: string;
  type: SavedCell["type"] = $state("code");
  source = $state("");
  outputs: Output[] = $state.raw([]);
  count: number | null = $state(null);
  state: "idle" | "waiting" | "running" = $state("idle");
  /** The run that last executed it, while the page is open. */
  run: string | undefined = $state();
  problem: unknown = $state.raw();
  /** Its last request for input, while it runs. */
  asked: { prompt: string; password: boolean } | undefined = $state.raw();
  readonly rest: Record<string, unknown>;

  constructor(saved: SavedCell) {
    this.id = saved.id;
    this.rest = saved.rest;
    Object.assign(this, { type: saved.type, source: saved.source, outputs: saved.outputs, count: saved.count });
  }
}

export class Book {
  cells: Cell[] = $state([]);
  language: Language = $state("python");
  /** The running cell. */
  running: Cell | undefined = $state.raw();
  restarting = $state(false);
  /** The interpreter's lost state, or why it is unreachable. */
  note = $state("");
  problem: unknown = $state.raw();
  readonly #rest: SavedBook["rest"];
  readonly #stop = new AbortController();
  #queue: Cell[] = [];
  #interrupted = false; // the running cell, before its run had an id
  #dropped = false; // whether the queue has been dropped since the last cell began
  #count = 0; // the last execution number

  /** The constructor throws if the text is not a notebook. It calls `touched` after every change, and `done` when nothing is left to execute. */
  constructor(readonly session: Session, readonly path: string, text: string, readonly touched: () => void, readonly done: () => void) {
    const saved = parse(text);
    this.#rest = saved.rest;
    this.language = saved.language;
    this.cells = saved.cells.map((cell) => new Cell(cell));
  }

  /** text returns the notebook as a file. */
  text(): string {
    return serialize({ cells: this.cells, language: this.language, rest: this.#rest });
  }

  /** context returns the name of the notebook's own interpreter. */
  get context(): string {
    let sum = 0;
    for (const char of `${this.path}\n${this.language}`) sum = (Math.imul(sum, 31) + char.codePointAt(0)!) >>> 0;
    const name = baseOf(this.path).replace(/\.ipynb$/i, "").replace(/[^A-Za-z0-9]+/g, "-").replace(/^-+|-+$/g, "").slice(0, 24);
    return `${name || "notebook"}-${sum.toString(36)}`;
  }

  insert(at: number, type: SavedCell["type"] = "code"): Cell {
    const cell = new Cell(emptyCell(type));
    this.cells.splice(at, 0, cell);
    this.touched();
    return this.cells[at]!;
  }

  remove(cell: Cell): void {
    this.#queue = this.#queue.filter((one) => one !== cell);
    this.cells = this.cells.filter((one) => one.id !== cell.id);
    if (this.cells.length === 0) this.cells = [new Cell(emptyCell())];
    this.touched();
  }

  move(cell: Cell, by: 1 | -1): void {
    const at = this.cells.findIndex((one) => one.id === cell.id);
    if (at + by < 0 || at + by >= this.cells.length) return;
    this.cells.splice(at, 1);
    this.cells.splice(at + by, 0, cell);
    this.touched();
  }

  clear(): void {
    for (const cell of this.cells) if (cell.state === "idle") Object.assign(cell, { outputs: [], count: null, run: undefined, problem: undefined });
    this.touched();
  }

  /** execute queues cells after those that wait. The first failure ends the queue. */
  execute(...cells: Cell[]): void {
    for (const cell of cells) {
      if (cell.type !== "code" || cell.state !== "idle" || cell.source.trim() === "") continue;
      cell.state = "waiting";
      this.#queue.push(cell);
    }
    if (!this.running) void this.#work();
  }

  /** interrupt ends the running cell; the variables stay. */
  async interrupt(): Promise<void> {
    this.#drop();
    const run = this.running?.run;
    if (run) await this.#cancel(run);
    else this.#interrupted = true;
  }

  #cancel(run: string): Promise<void> {
    return this.#try(async () => void (await api().runs.cancel(run)));
  }

  /** restart starts a new interpreter, without the variables. */
  async restart(): Promise<void> {
    this.#drop();
    this.restarting = true;
    await this.#try(async () => {
      await this.session.createContext({ language: this.language, name: this.context });
      await this.session.restartContext(this.context);
      this.#count = 0;
      this.note = "The interpreter was started again. It has no variables.";
    });
    this.restarting = false;
  }

  /** close stops watching. The running cell continues. */
  close(): void {
    this.#drop();
    this.#stop.abort();
  }

  #drop(): void {
    this.#dropped = true;
    for (const cell of this.#queue.splice(0)) cell.state = "idle";
  }

  async #try(does: () => Promise<void>): Promise<void> {
    this.problem = undefined;
    try {
      await does();
    } catch (error) {
      this.problem = error;
    }
  }

  async #work(): Promise<void> {
    for (let cell = this.#queue.shift(); cell; cell = this.#queue.shift()) {
      this.running = cell;
      cell.state = "running";
      this.#dropped = this.#interrupted = false;
      const good = await this.#execute(cell);
      cell.state = "idle";
      if (this.#stop.signal.aborted) return;
      if (!good && !this.#dropped) this.#drop(); // keep cells that were queued after an interrupt
    }
    this.running = undefined;
    this.done();
  }

  async #execute(cell: Cell): Promise<boolean> {
    const { signal } = this.#stop;
    Object.assign(cell, { outputs: [], count: null, run: undefined, problem: undefined, asked: undefined });
    this.note = "";
    this.touched();
    let outputs: Output[] = [];
    let later: ReturnType<typeof setTimeout> | undefined;
    const draw = () => {
      clearTimeout(later);
      later = undefined;
      cell.outputs = [...outputs];
    };
    try {
      // A cell of bash does not announce that it reads input, so it gets end of file at once.
      const input = this.language === "bash" ? {} : { interactive: true, stdin_idle_timeout_sec: 3600 };
      const { id } = await this.session.start({ code: cell.source, language: this.language, context: this.context, ...input });
      cell.run = id;
      if (this.#interrupted) void this.#cancel(id);
      let line = "";
      let drawn = performance.now();
      for await (const frame of api().runs.frames(id, { signal })) {
        if (frame.type === "stdout" || frame.type === "stderr") print(outputs, frame.type, frame.text);
        else if (frame.type === "result") {
          const lines = (line + frame.text).split("\n");
          line = lines.pop()!;
          for (const one of lines) add(cell, outputs, one);
        } else continue;
        later ??= setTimeout(draw, drawMs);
        if (performance.now() - drawn < drawMs) continue;
        await new Promise((resolve) => setTimeout(resolve)); // promises alone do not let the browser draw
        drawn = performance.now();
      }
      outputs = once(outputs);
      this.#count = cell.count = cell.count ?? this.#count + 1;
      const run = await api().runs.get(id, { signal });
      if (run.context?.state === "new") this.note = "The interpreter is new. The variables were lost while the session hibernated.";
      if (run.context?.state === "replaced") this.note = "The interpreter has ended, and its variables are gone.";
      const good = run.phase === "completed" && run.exit_code === 0;
      if (!good && !outputs.some((one) => one.output_type === "error") && run.message) print(outputs, "stderr", `${run.message}\n`);
      return good;
    } catch (error) {
      if (!signal.aborted) cell.problem = error;
      return false;
    } finally {
      draw();
      if (!signal.aborted) this.touched();
    }
  }
}

function print(outputs: Output[], name: "stdout" | "stderr", text: string): void {
  const last = outputs.at(-1);
  const before = last?.output_type === "stream" && last["name"] === name ? String(last["text"]) : undefined;
  if (before !== undefined && before.length > mostPrinted) return;
  let whole = (before ?? "") + text;
  if (whole.length > mostPrinted) whole = `${whole.slice(0, mostPrinted)}\n… the log of the run has the rest\n`;
  outputs.splice(before === undefined ? outputs.length : -1, 1, { output_type: "stream", name, text: whole });
}

// once removes the traceback from stderr, because the error has it, too.
function once(outputs: Output[]): Output[] {
  const error = outputs.find((one) => one.output_type === "error");
  const trace = error && (error["traceback"] as string[]).join("\n").trim();
  if (!trace) return outputs;
  return outputs.flatMap((one) => {
    const text = one.output_type === "stream" && one["name"] === "stderr" ? String(one["text"]).trimEnd() : "";
    if (!text.endsWith(trace)) return [one];
    const rest = text.slice(0, -trace.length);
    return rest ? [{ ...one, text: rest }] : [];
  });
}

function add(cell: Cell, outputs: Output[], line: string): void {
  cell.asked = askedIn(line) ?? cell.asked;
  const output = outputIn(line);
  if (!output) return;
  if (output.output_type === "execute_result") cell.count = output["execution_count"] as number | null;
  outputs.push(output);
}
