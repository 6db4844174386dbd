// An operator's view of a request: the rules of SANDBOX_APPROVAL that it matches, in words, and its command.
import { bytes, count } from "../../format.ts";

/** briefOf returns the beginning of a text and the size of the hidden rest, so that the reader notices it. */
export function briefOf(text: string, mostLines = 10, mostChars = 1000): { head: string; more: string | undefined } {
  const lines = text.split("\n");
  const head = lines.slice(0, mostLines).join("\n").slice(0, mostChars);
  if (head === text) return { head, more: undefined };
  return { head, more: lines.length > mostLines ? count(lines.length - mostLines, "more line") : bytes(new TextEncoder().encode(text.slice(head.length)).length) };
}

/** plainReason returns the reason of an approval as a sentence: "network: example.com" is `It wants to reach example.com`. */
export function plainReason(reason: string): string {
  const match = /^([a-z_]+)(?:([>=])(\S*?))?(?:: ([\s\S]*))?$/.exec(reason);
  if (!match) return reason;
  const [, subject, , bound = "", asked = ""] = match;
  const over = (what: string, unit: string) => `${what} ${asked}${unit}; more than ${bound}${unit} needs an approval`;
  switch (subject) {
    case "network": return `It wants to reach ${asked === "no host" ? asked : asked.replaceAll(" ", ", ") || "the network"}`;
    case "image": return `It uses the image ${asked || bound}`;
    case "secrets": return `It gets the secrets ${asked}`;
    case "git": return `It clones ${asked}`;
    case "packages": return `It installs ${asked}`;
    case "cpu": return over("It wants", " processors");
    case "memory_mb": return over("It wants", " MiB of memory");
    case "timeout_sec": return over("It may run for", " s");
    case "source": return `It was sent by ${bound}`;
    default: return reason;
  }
}
