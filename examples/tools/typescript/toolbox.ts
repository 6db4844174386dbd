// Function tools for OpenAI's chat completions and compatible APIs, which work in a sandbox.
import { BelljarError, type Session } from "belljar";

/** A function tool with all arguments required, as strict mode demands. */
export interface Tool {
  type: "function";
  function: { name: string; description: string; strict: true; parameters: Record<string, unknown> };
}

function tool(name: string, description: string, properties: Record<string, unknown> = {}): Tool {
  const parameters = { type: "object", properties, required: Object.keys(properties), additionalProperties: false };
  return { type: "function", function: { name, description, strict: true, parameters } };
}

const path = { type: "string", description: "in the workspace, such as src/main.py" };
const languages = ["python", "javascript", "bash"];

export const tools: Tool[] = [
  tool("run_code", "Runs a program and returns what it prints. It starts in the workspace and has no network.", {
    language: { type: "string", enum: languages },
    code: { type: "string" },
  }),
  tool("shell", "Gives a line to a bash that keeps its directory, variables and background jobs.", { command: { type: "string" } }),
  tool("write_file", "Writes a text file, in place of one that is there.", { path, contents: { type: "string" } }),
  tool("read_file", "Reads a text file.", { path }),
  tool("list_files", "Lists the files of the workspace."),
];

/** Invalid input from a model. */
class Wrong extends Error {}

/** Tools on one session: files and the shell persist between calls. */
export class Toolbox {
  readonly #session: Session;
  readonly #timeoutSec: number;
  readonly #most: number;

  /** timeoutSec applies to each command; most is the number of characters that the model gets of an output. */
  constructor(session: Session, { timeoutSec = 60, most = 8000 } = {}) {
    this.#session = session;
    this.#timeoutSec = timeoutSec;
    this.#most = most;
  }

  /** Calls the tool that the model requests. It never throws: errors are text for the model to read. */
  async call(name: string, given: string): Promise<string> {
    try {
      return await this.#do(name, argumentsOf(given));
    } catch (error) {
      if (error instanceof Wrong) return `error: the arguments of ${name} are wrong: ${error.message}`;
      if (error instanceof BelljarError) return `error: ${error.message}${error.hint && ` (${error.hint})`}`;
      throw error;
    }
  }

  async #do(name: string, given: Record<string, unknown>): Promise<string> {
    const text = (field: string): string => {
      const value = given[field];
      if (typeof value !== "string") throw new Wrong(`${field} is no string`);
      return value;
    };
    switch (name) {
      case "run_code": {
        const language = text("language");
        if (!languages.includes(language)) throw new Wrong(`language is one of ${languages.join(", ")}`);
        const run = await this.#session.run({ language, code: text("code"), timeout_sec: this.#timeoutSec });
        return this.#result(run.stdout + run.stderr, run.ok ? "" : run.message);
      }
      case "shell": {
        const done = await this.#session.exec(text("command"), { timeoutMs: this.#timeoutSec * 1000 });
        return this.#result(done.output, done.exitCode === 0 ? "" : `exit code ${done.exitCode}`);
      }
      case "write_file":
        await this.#session.files.write(text("path"), text("contents"), { overwrite: true });
        return "written";
      case "read_file":
        return this.#result(await this.#session.files.text(text("path")), "");
      case "list_files": {
        const { entries } = await this.#session.files.list(".", { recursive: true, limit: 200 });
        return (entries ?? []).map((entry) => entry.path).join("\n") || "nothing is there";
      }
    }
    return `error: there is no tool "${name}"`;
  }

  /** Returns the model's view of an output: of a long one, the beginning and the end. */
  #result(text: string, end: string): string {
    const half = this.#most / 2;
    if (text.length > this.#most) {
      text = `${text.slice(0, half)}\n[${text.length - this.#most} characters left out]\n${text.slice(-half)}`;
    }
    if (end) text += text && !text.endsWith("\n") ? `\n[${end}]` : `[${end}]`;
    return text || "[it printed nothing]";
  }
}

function argumentsOf(given: string): Record<string, unknown> {
  let value: unknown;
  try {
    value = JSON.parse(given || "{}");
  } catch {
    throw new Wrong("they are no JSON");
  }
  if (typeof value !== "object" || value === null) throw new Wrong("they are no object");
  return value as Record<string, unknown>;
}
