import type { Owner } from "./world.ts";

/** An owner that a test ends. */
export class Until implements Owner {
  #ends: (() => unknown)[] = [];

  after(end: () => unknown): void {
    this.#ends.push(end);
  }

  /** end ends what belongs to it. */
  async end(): Promise<void> {
    for (let next = this.#ends.pop(); next; next = this.#ends.pop()) await next();
  }
}
