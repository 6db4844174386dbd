package rest

// networkWords are the descriptions of a network's properties, as [words].
func networkWords() map[string]string {
	const connections, in, out = "Connections that were allowed", "Bytes to the sandbox", "Bytes from the sandbox"
	return map[string]string{
		"egress":     "What programs may reach, within the server's rules, with network_policy allowlist; an empty list is nothing",
		"Run.egress": "What left the sandbox while the run lasted, and what was denied", "StartedRun.egress": "As in a run", "ShownRun.egress": "As in a run",
		"hosts": "Hosts: example.com, or *.example.com for every name below it", "cidrs": "Networks: 203.0.113.0/24", "ips": "Addresses: 203.0.113.7",
		"EgressReport.allowed": connections, "EgressReport.denied": "Connections and names that were denied", "EgressReport.hosts": "The hosts, at most 100",
		"EgressReport.bytes_in": in, "EgressReport.bytes_out": out,
		"EgressHost.host": "Its name, or its address", "EgressHost.ip": "The address that was connected to last", "EgressHost.allowed": connections,
		"EgressHost.denied": "Connections and names that were denied", "EgressHost.bytes_in": in, "EgressHost.bytes_out": out,
		"rule": "The rule that matched", "EgressHost.reason": "Why it was denied: no_match, dns_mismatch, policy_changed, sni_missing, private_address, port_denied, dns_failed, brokered, limit",
		"NetworkCheck.url": "The URL", "NetworkCheck.host": "Its host", "NetworkCheck.port": "Its port", "NetworkCheck.allowed": "Whether a program could connect to it",
		"NetworkCheck.reason": "Why not, as in a run's egress", "NetworkCheck.message": "Both, for people", "addresses": "The addresses that the host has now",
		"NetworkQuery.url": "The URL, or a host alone", "NetworkQuery.session_id": "The session that would connect; without one, network_policy and egress apply",
	}
}
