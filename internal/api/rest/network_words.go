package rest

// networkWords are the descriptions of a network's properties, as [words].
func networkWords() map[string]string {
	const connections, in, out = "Connections that were allowed", "Bytes to the sandbox", "Bytes from the sandbox"
	return map[string]string{
		"network":    "The network that the request asked for; absent without one, and in a session",
		"egress":     "What programs may reach, within the server's rules, with network_policy allowlist; an empty list is nothing",
		"Run.egress": "What left the sandbox while the run lasted, and what was denied", "StartedRun.egress": "As in a run", "ShownRun.egress": "As in a run",
		"hosts": "Hosts: example.com, or *.example.com for every name below it", "cidrs": "Networks: 203.0.113.0/24", "ips": "Addresses: 203.0.113.7",
		"EgressReport.allowed": connections, "EgressReport.denied": "Connections and names that were denied", "EgressReport.hosts": "The hosts, at most 100",
		"EgressReport.bytes_in": in, "EgressReport.bytes_out": out,
		"presets": "Presets, which open the hosts where a tool gets packages: pip, npm, cargo, go, maven, apt, github; those that the server has switched on", "EgressReport.presets": "The presets of the request, with their indexes and hosts",
		"Session.presets": "The presets of its egress, with what they stand for", "NetworkPreset.name": "Its name", "enabled": "Whether the server has it switched on",
		"indexes": "Addresses of what the tool asks", "NetworkPreset.hosts": "The hosts that programs may reach with it", "NetworkPreset.source": "Source of the indexes: mirror (the operator's setting) or image (the tool's own setting)",
		"learnt_at": "When that was found out", "NetworkPreset.reason": "Why it cannot be used", "NetworkPreset.hint": "What to do about that",
		"EgressHost.host": "Its name, or its address", "EgressHost.ip": "The address that was connected to last", "EgressHost.allowed": connections,
		"EgressHost.denied": "Connections and names that were denied", "EgressHost.bytes_in": in, "EgressHost.bytes_out": out,
		"rule": "The rule that matched", "EgressHost.reason": "Why it was denied: no_match, dns_mismatch, policy_changed, sni_missing, private_address, port_denied, dns_failed, brokered, limit, certificate_unknown, certificate_expired, certificate_name, certificate_invalid; unreachable if it was allowed and did not answer",
		"NetworkCheck.url": "The URL", "NetworkCheck.host": "Its host", "NetworkCheck.port": "Its port", "NetworkCheck.allowed": "Whether a program could connect to it",
		"NetworkCheck.reason": "Why not, as in a run's egress", "NetworkCheck.message": "The answer and the reason, as text", "addresses": "The addresses that the host has now",
		"git": "A Git repository whose files the workspace begins with, cloned before the sandbox is made", "Run.git": "The repository that the workspace began with",
		"StartedRun.git": "As in a run", "ShownRun.git": "As in a run", "Session.git": "The repository that the workspace began with",
		"GitSpec.url": "Its https address, host[:port]/path, without a user or password", "GitSpec.ref": "A branch, a tag, or a commit by its whole hash; unset, the repository's own branch",
		"depth": "How many commits of history are cloned; 1 by default", "patch": "A unified diff for the files of the repository; at most 1 MiB",
		"subdir": "The folder of the repository that becomes the workspace", "keep_git": "Keep .git, with the commit checked out",
		"GitSpec.secret": "The name of one of the request's secrets, for a repository that is not public; it goes to the repository's host alone",
		"keep_ignored":   "Keep what the repository's .dockerignore names", "GitSource.url": "Its address", "GitSource.ref": "What was asked for",
		"commit": "The commit's whole hash", "ignored": "How many files were left out, as the repository's .dockerignore says",
		"NetworkQuery.url": "The URL, or a host alone", "NetworkQuery.session_id": "The session that would connect; without one, network_policy and egress apply",
	}
}
