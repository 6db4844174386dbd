import type { Owner } from "./world.ts";

/** An owner that the test itself ends. */
export class Until implements Owner {
  #ends: (() => unknown)[] = [];

  after(end: () => unknown): void {
    this.#ends.push(end);
  }

  /** end runs the cleanups of the owner. */
  async end(): Promise<void> {
    for (let next = this.#ends.pop(); next; next = this.#ends.pop()) await next();
  }
}
