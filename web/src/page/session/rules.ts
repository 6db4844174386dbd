// Network rules as lines of text: one host, network or address on each line.
import type { Egress } from "belljar-sdk";

/** rulesOf sorts lines into hosts, networks and addresses. The server validates them. */
export function rulesOf(text: string): Egress {
  const lines = text.split(/[\s,]+/).filter(Boolean);
  const isAddress = (line: string) => /^[\d.]+$/.test(line) || /^[0-9a-f:.]*:[0-9a-f:.]*$/i.test(line);
  const cidrs = lines.filter((line) => line.includes("/") && isAddress(line.slice(0, line.indexOf("/"))));
  const ips = lines.filter(isAddress);
  const hosts = lines.filter((line) => !cidrs.includes(line) && !ips.includes(line));
  return { ...(hosts.length && { hosts }), ...(cidrs.length && { cidrs }), ...(ips.length && { ips }) };
}

/** textOfRules is the inverse of rulesOf. */
export function textOfRules(egress: Egress | undefined): string {
  return [...(egress?.hosts ?? []), ...(egress?.cidrs ?? []), ...(egress?.ips ?? [])].join("\n");
}
