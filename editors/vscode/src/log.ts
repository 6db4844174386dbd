import * as vscode from "vscode";
import type { LogNote, TruncatedNote } from "./protocol.js";

/** The number of terminals of ended runs to keep. */
const mostTerminals = 5;

/** The sequences of arrow and similar keys, and of bracketed paste. A line does not need them. */
const keys = /\x1b(?:\[[0-?]*[ -/]*[@-~]|O.|.)?/gsu;

/**
 * Removes control strings (OSC, DCS, SOS, PM and APC) from text, also if they continue in the next text: the terminal obeys them, and could
 * write the clipboard, or type the answer to a query. An ESC waits for the character that gives it a meaning.
 */
class Filter {
  private state: "text" | "escape" | "string" = "text";

  clean(text: string): string {
    let out = "";
    for (const c of text) {
      if (c === "\x1b") this.state = "escape"; // it ends a string, too
      else if (/[\x90\x98\x9d-\x9f]/.test(c) || (this.state === "escape" && /[PX\]^_]/.test(c))) this.state = "string";
      else if (/[\x18\x1a\x9c]/.test(c)) this.state = "text"; // CAN, SUB and ST
      else if (this.state === "string") this.state = c === "\x07" ? "text" : "string";
      else if (this.state === "text" || /[\0-\x1f\x7f]/.test(c)) out += c; // a terminal obeys controls even within an escape sequence
      else {
        if (c !== "\\") out += `\x1b${c}`; // with a backslash it is another ST
        this.state = "text";
      }
    }
    return out;
  }
}

/** The handlers for a terminal's input. */
export interface Keyboard {
  reads(): boolean; // whether the run reads input
  input(data: string, end: boolean): void;
  interrupt(): void;
}

/** A terminal that shows a run's output, and sends input if the run reads any. */
class LogTerminal implements vscode.Pseudoterminal {
  private readonly write = new vscode.EventEmitter<string>();
  readonly onDidWrite = this.write.event;
  readonly terminal: vscode.Terminal;
  private isOpen = false;
  private isClosed = false;
  ended = false; // whether its run has ended
  private line = "";
  private readonly filters = { stdout: new Filter(), stderr: new Filter() };

  constructor(private readonly name: string, private readonly keyboard: Keyboard, private text = "") {
    this.terminal = vscode.window.createTerminal({ name, pty: this });
  }

  open(): void {
    this.isOpen = true;
    this.write.fire(this.text);
  }

  close(): void {
    this.isOpen = false;
    this.isClosed = true;
  }

  /** Returns this terminal, or a new one with the same text if the user has closed this one. */
  again(): LogTerminal {
    if (!this.isClosed) return this;
    const again = new LogTerminal(this.name, this.keyboard, this.text);
    again.ended = this.ended;
    return again;
  }

  /** Prints a part of the program's output. */
  output(stream: LogNote["stream"], text: string): void {
    this.print(this.filters[stream].clean(text));
  }

  print(text: string): void {
    const shown = text.replace(/\r?\n/g, "\r\n");
    this.text += shown;
    if (this.isOpen) this.write.fire(shown);
  }

  /** Sends a line when it is complete, like a terminal in canonical mode. */
  handleInput(data: string): void {
    for (const c of new Filter().clean(data).replace(keys, "")) {
      if (c === "\x03") this.keyboard.interrupt();
      else if (!this.keyboard.reads()) continue;
      else if (c === "\r") {
        this.print("\n");
        this.keyboard.input(this.line + "\n", false);
        this.line = "";
      } else if (c === "\x04") {
        this.keyboard.input(this.line, this.line === "");
        this.line = "";
      } else if (c === "\x7f") {
        if (this.line) {
          this.line = [...this.line].slice(0, -1).join("");
          this.print("\b \b");
        }
      } else if (c >= " ") {
        this.line += c;
        this.print(c);
      }
    }
  }
}

/** The logs of the runs of this window. */
export class Logs {
  private readonly terminals = new Map<string, LogTerminal>();

  begin(runId: string, name: string, keyboard: Keyboard): void {
    if (this.terminals.has(runId)) return;
    this.terminals.set(runId, new LogTerminal(`Belljar: ${name}`, keyboard));
    const old = [...this.terminals].filter(([, { ended }]) => ended);
    for (const [id, { terminal }] of old.slice(0, -mostTerminals)) {
      this.terminals.delete(id);
      terminal.dispose();
    }
  }

  print(note: LogNote): void {
    const text = note.encoding === "base64" ? Buffer.from(note.data, "base64").toString("latin1") : note.data;
    this.terminals.get(note.run_id)?.output(note.stream, text);
  }

  truncated(note: TruncatedNote): void {
    const link = note.web_url ? ` ${note.title}: ${note.web_url}` : "";
    this.say(note.run_id, `${note.stream} continues; its first ${note.shown_bytes >> 10} KB are shown.${link}`);
  }

  /** Prints a note that is not the program's output. */
  say(runId: string, text: string): void {
    this.terminals.get(runId)?.print(`\n\x1b[2m${new Filter().clean(text)}\x1b[0m\n`);
  }

  /** Prints how a run ended. Later runs may replace its terminal. */
  end(runId: string, text: string): void {
    this.say(runId, text);
    const found = this.terminals.get(runId);
    if (found) found.ended = true;
  }

  show(runId: string, preserveFocus = true): boolean {
    const found = this.terminals.get(runId)?.again();
    if (!found) return false;
    this.terminals.set(runId, found);
    found.terminal.show(preserveFocus);
    return true;
  }

  dispose(): void {
    for (const { terminal } of this.terminals.values()) terminal.dispose();
    this.terminals.clear();
  }
}
