import { unwrapped } from "./backoff.js";
import type { CallOptions } from "./call.js";
import { kindOf, type Connection } from "./connection.js";
import { errorOf, RuntimeUnavailableError, type ErrorBody } from "./error.js";
import { eventsOf, objectOf } from "./events.js";
import { strangerOf } from "./failure.js";
import type { UsageSample } from "./types.js";

/**
 * watchUsage yields samples until the run or session has ended. A broken connection ends it with an error: the server keeps no samples.
 * @internal
 */
export async function* watchUsage(connection: Connection, path: string, options?: CallOptions): AsyncGenerator<UsageSample> {
  const { answer, chunks, close } = await connection.open({ method: "GET", path, headers: { Accept: "text/event-stream" } }, options);
  if (kindOf(answer) !== "text/event-stream") {
    close();
    throw strangerOf(answer);
  }
  try {
    for await (const { name, data } of eventsOf(chunks())) {
      if (name === "usage") yield objectOf<UsageSample>(data);
      if (name === "end") return;
      if (name === "error") throw errorOf(objectOf<{ error: ErrorBody }>(data).error);
    }
  } catch (error) {
    throw unwrapped(error);
  }
  throw new RuntimeUnavailableError({ code: "runtime_unavailable", message: "the connection broke while the usage was watched", hint: "watch again" });
}
