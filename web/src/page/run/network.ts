// Why a host was denied, and the remedy: the words of docs/network.md.

const reasons: Record<string, { why: string; then: string }> = {
  no_match: { why: "No rule of the request covers the host, or none of the server", then: "Add a rule. belljar network check says which side" },
  port_denied: { why: "The port is not among SANDBOX_EGRESS_PORTS", then: "The operator adds it" },
  dns_failed: { why: "The name has no address, or the DNS server did not answer. It is tried again after 5 s", then: "Check the name, and the host's DNS" },
  private_address: { why: "Every address of the host is special: loopback, private or link-local", then: "The operator sets SANDBOX_EGRESS_PRIVATE, and the request lists the address" },
  sni_missing: { why: "On port 443: no TLS, or no name in it, within 10 s and 16 KiB", then: "Use TLS with a name. For other protocols use another port" },
  dns_mismatch: { why: "On 443 or 80: the program spoke to another host than the one that it connected to", then: "Connect to the name itself" },
  brokered: { why: "The host has a brokered secret, and the program did not speak HTTP/1.1 over TLS on port 443, or does not trust the sandbox's authority", then: "Use HTTPS, and the authorities in $SSL_CERT_FILE" },
  policy_changed: { why: "The session's rules were narrowed while the connection was open", then: "" },
  limit: { why: "Too many connections, names or bytes", then: "Connect less often, or ask the operator for more" },
  unreachable: { why: "The rules allow the connection, and the host did not answer", then: "Check that the host is there" },
};

/** denialOf returns why a host was denied, and the remedy. */
export function denialOf(reason: string | undefined): { why: string; then: string } {
  if (!reason) return { why: "", then: "" };
  return Object.hasOwn(reasons, reason) ? reasons[reason]! : { why: reason.replaceAll("_", " "), then: "" };
}
