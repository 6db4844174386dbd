import { foreign } from "./call.js";

/** One server-sent event. */
export interface ServerEvent {
  id: string;
  name: string;
  data: string;
}

const maxEvent = 8 << 20;

/**
 * eventsOf parses server-sent events. It leaves out an event that the end of the stream cuts off.
 * @internal
 */
export async function* eventsOf(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<ServerEvent> {
  const decoder = new TextDecoder();
  let rest = "";
  let id = "";
  let name = "";
  let data: string | undefined;
  for await (const chunk of chunks) {
    rest += decoder.decode(chunk, { stream: true });
    let from = 0;
    for (let to = rest.indexOf("\n"); to >= 0; to = rest.indexOf("\n", from)) {
      const line = rest.slice(from, rest.charCodeAt(to - 1) === 13 && to > from ? to - 1 : to);
      from = to + 1;
      if (line === "") {
        if (data !== undefined) yield { id, name, data };
        id = name = "";
        data = undefined;
        continue;
      }
      const colon = line.indexOf(":");
      const field = colon < 0 ? line : line.slice(0, colon);
      const value = colon < 0 ? "" : line.slice(line[colon + 1] === " " ? colon + 2 : colon + 1);
      if (field === "data") data = data === undefined ? value : data + "\n" + value;
      else if (field === "event") name = value;
      else if (field === "id") id = value;
    }
    rest = rest.slice(from);
    if (rest.length + (data?.length ?? 0) > maxEvent) throw foreign("the server sent an event without an end");
  }
}

/**
 * objectOf parses an event's data.
 * @internal
 */
export function objectOf<T extends object>(data: string): T {
  let value: unknown;
  try {
    value = JSON.parse(data);
  } catch (error) {
    throw foreign("the stream cannot be read", error);
  }
  if (typeof value !== "object" || value === null) throw foreign("the stream cannot be read");
  return value as T;
}
