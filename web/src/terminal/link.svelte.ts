// The connection of a screen to a terminal: open, watch, and reopen it.
import type { Terminal } from "belljar-sdk";
import { endingOf, failureOf, pauseMs, type Ending } from "./ending.ts";

/** The display of a terminal. */
export interface Screen {
  readonly cols: number;
  readonly rows: number;
  /** write calls done once it has parsed the data. */
  write(data: Uint8Array, done: () => void): void;
  /** reset clears the screen before the history. */
  reset(): void;
}

/** The way to reach a terminal. */
export interface Way {
  /** open makes a terminal. It has no signal: an aborted request may have made one. */
  open(size: { cols: number; rows: number }): Promise<Terminal>;
  attach(id: string, signal: AbortSignal): Promise<Terminal>;
  /** made receives the id of the new terminal, even after the screen has closed. */
  made(id: string): void;
  /** failed receives every error, such as an expired token. */
  failed(error: unknown): void;
}

// A browser's WebSocket cannot be paused. Above this limit of unparsed output, the link detaches, and reattaches for the
// history.
const mostUnparsed = 4 << 20;

export class Link {
  state: "connecting" | "open" | "waiting" | "lost" | "exited" = $state("connecting");
  /** The first problem since the user last acted, or the permanent one. */
  problem: Ending | undefined = $state.raw();
  exitCode = $state(0);
  /** The time of the next attempt, while it is waiting. */
  nextTry = $state(0);
  id: string | undefined = $state();

  readonly #screen: Screen;
  readonly #way: Way;
  #terminal: Terminal | undefined;
  #round = new AbortController();
  #unparsed = 0;
  #drained: (() => void) | undefined;
  #early: (string | Uint8Array)[] | undefined = []; // input before the terminal was first open, or while the screen is behind
  #silent = 0; // writes of old output: the screen's answers to them are not input
  #resizing: ReturnType<typeof setTimeout> | undefined;

  constructor(screen: Screen, way: Way, id: string | undefined) {
    this.#screen = screen;
    this.#way = way;
    this.id = id;
    void this.#follow(this.#round);
  }

  /** type sends the user's input. */
  type(data: string | Uint8Array): void {
    if (this.#silent > 0) return;
    if (this.state === "connecting") this.#early?.push(data);
    if (this.state !== "open") return;
    if (this.problem) this.problem = undefined;
    this.#terminal?.write(data).catch(() => {}); // the connection's end reports the error
  }

  /** fit sends the screen's size to the terminal, once it is stable. */
  fit(): void {
    clearTimeout(this.#resizing);
    this.#resizing = setTimeout(() => this.#size(), 100);
  }

  /** reconnect reconnects now. */
  reconnect(): void {
    this.#leave();
    this.problem = undefined;
    this.#round = new AbortController();
    void this.#follow(this.#round);
  }

  /** close detaches from the terminal, which continues. */
  close(): void {
    clearTimeout(this.#resizing);
    this.#leave();
  }

  #leave(): void {
    this.#round.abort();
    void this.#terminal?.close();
    this.#terminal = undefined;
  }

  #size(): void {
    const { cols, rows } = this.#screen;
    const terminal = this.#terminal;
    if (!terminal || this.state !== "open" || (terminal.state.cols === cols && terminal.state.rows === rows)) return;
    terminal.resize(cols, rows).catch(() => {}); // the connection's end reports the error
  }

  async #follow({ signal }: AbortController): Promise<void> {
    for (let failures = 0; !signal.aborted; ) {
      this.state = "connecting";
      let ending: Ending | "behind" | "over";
      try {
        const { cols, rows } = this.#screen;
        const known = this.id;
        const terminal = known ? await this.#way.attach(known, signal) : await this.#way.open({ cols, rows });
        if (!known) this.#way.made(terminal.id);
        if (signal.aborted) return void terminal.close();
        this.#terminal = terminal;
        this.id = terminal.id;
        this.#screen.reset();
        this.state = "open";
        this.#size();
        const early = this.#early ?? [];
        this.#early = undefined;
        for (const data of early) this.type(data);
        failures = 0;
        ending = await this.#read(terminal, signal);
      } catch (error) {
        if (signal.aborted) return;
        this.#early = undefined;
        this.#way.failed(error);
        ending = failureOf(error);
        if (!this.id) ending.again = false; // it may exist: the list of terminals shows it
      }
      this.#terminal = undefined;
      if (signal.aborted || ending === "over") return;
      if (ending === "behind") continue;
      if (!ending.again) {
        this.problem = ending; // replaces the reason of the retries
        this.state = "lost";
        return;
      }
      this.problem ??= ending;
      const pause = pauseMs(failures++);
      this.state = "waiting";
      this.nextTry = Date.now() + pause;
      await new Promise((resolve) => {
        const timer = setTimeout(resolve, pause);
        signal.addEventListener("abort", () => { clearTimeout(timer); resolve(undefined); }, { once: true });
      });
    }
  }

  // read shows output until the connection ends, or the program (over). It detaches if the screen is far behind.
  async #read(terminal: Terminal, signal: AbortSignal): Promise<Ending | "behind" | "over"> {
    for await (const event of terminal) {
      if (signal.aborted) return "over";
      switch (event.kind) {
        case "history":
          this.#silent++;
          this.#write(event.data, () => this.#silent--);
          break;
        case "output":
          this.#write(event.data);
          if (this.#unparsed <= mostUnparsed) break;
          this.#early = [];
          this.state = "connecting"; // type keeps the keys for the next attachment: a Ctrl+C must not be lost
          void terminal.close();
          await new Promise<void>((resolve) => (this.#drained = resolve));
          return "behind";
        case "exit":
          this.exitCode = event.exitCode;
          this.state = "exited";
          return "over";
        default:
          return endingOf(event);
      }
    }
    return failureOf(undefined);
  }

  #write(data: Uint8Array, then?: () => void): void {
    this.#unparsed += data.length;
    this.#screen.write(data, () => {
      this.#unparsed -= data.length;
      then?.();
      if (this.#unparsed > 0) return;
      this.#drained?.();
      this.#drained = undefined;
    });
  }
}
