// Network rules as lines of text: one host, network, address or preset on each line.
import type { Egress } from "belljar-sdk";

const preset = "preset:"; // as in the server's approvals

/** rulesOf sorts lines into hosts, networks, addresses and presets. The server validates them. */
export function rulesOf(text: string): Egress {
  const all = text.split(/[\s,]+/).filter(Boolean);
  const presets = all.filter((line) => line.startsWith(preset)).map((line) => line.slice(preset.length));
  const lines = all.filter((line) => !line.startsWith(preset));
  const isAddress = (line: string) => /^[\d.]+$/.test(line) || /^[0-9a-f:.]*:[0-9a-f:.]*$/i.test(line);
  const cidrs = lines.filter((line) => line.includes("/") && isAddress(line.slice(0, line.indexOf("/"))));
  const ips = lines.filter(isAddress);
  const hosts = lines.filter((line) => !cidrs.includes(line) && !ips.includes(line));
  return { ...(hosts.length && { hosts }), ...(cidrs.length && { cidrs }), ...(ips.length && { ips }), ...(presets.length && { presets }) };
}

/** linesOfRules returns all rules. */
export function linesOfRules(egress: Egress | undefined): string[] {
  return [...(egress?.hosts ?? []), ...(egress?.cidrs ?? []), ...(egress?.ips ?? []), ...(egress?.presets ?? []).map((name) => preset + name)];
}

/** textOfRules is the inverse of rulesOf. */
export const textOfRules = (egress: Egress | undefined): string => linesOfRules(egress).join("\n");
