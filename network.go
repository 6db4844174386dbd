package belljar

// Egress is what the programs of a run or session may reach when its network_policy is allowlist. Nothing else is
// reachable, and an empty list is nothing.
type Egress struct {
	Hosts []string `json:"hosts,omitempty"` // example.com, or *.example.com for every name below it
	CIDRs []string `json:"cidrs,omitempty"` // 203.0.113.0/24
	IPs   []string `json:"ips,omitempty"`   // 203.0.113.7, 2001:db8::7
}

// EgressReport is what left a sandbox, and what was denied.
type EgressReport struct {
	Allowed  int          `json:"allowed"` // connections
	Denied   int          `json:"denied"`  // connections and names
	BytesIn  int64        `json:"bytes_in"`
	BytesOut int64        `json:"bytes_out"`
	Hosts    []EgressHost `json:"hosts"` // at most 100
}

// EgressHost is one row of an [EgressReport]: a host, with the rule that allowed it or the reason why it was denied.
type EgressHost struct {
	Host     string `json:"host"`
	IP       string `json:"ip,omitempty"`     // the address that was dialled last
	Rule     string `json:"rule,omitempty"`   // the rule that allowed it
	Reason   string `json:"reason,omitempty"` // why it was denied: no_match, dns_mismatch, private_address, …
	Allowed  int    `json:"allowed"`
	Denied   int    `json:"denied"`
	BytesIn  int64  `json:"bytes_in"`
	BytesOut int64  `json:"bytes_out"`
}

// NetworkCheck is what would happen to a URL: the answer of a dry run.
type NetworkCheck struct {
	URL       string   `json:"url"`
	Host      string   `json:"host"`
	Port      int      `json:"port"`
	Allowed   bool     `json:"allowed"`
	Rule      string   `json:"rule,omitempty"`
	Reason    string   `json:"reason,omitempty"`
	Message   string   `json:"message"`
	Addresses []string `json:"addresses,omitempty"` // that the host has now
}
