package belljar

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// Egress lists the destinations that programs of a run or session may reach if network_policy is allowlist. No other
// destination is reachable, and an empty list permits nothing.
type Egress struct {
	Hosts []string `json:"hosts,omitempty"` // example.com, or *.example.com for every name below it
	CIDRs []string `json:"cidrs,omitempty"` // 203.0.113.0/24
	IPs   []string `json:"ips,omitempty"`   // 203.0.113.7, 2001:db8::7
	// Presets permit the package sources of the image's tools: names of [EgressPresets] that the server has enabled.
	Presets []string `json:"presets,omitempty"`
}

// EgressPresets are the valid names of [Egress.Presets].
func EgressPresets() []string { return []string{"pip", "npm", "cargo", "go", "maven", "apt", "github"} }

// NetworkPreset is the expansion of a preset, for one image.
type NetworkPreset struct {
	Name    string   `json:"name"`
	Enabled bool     `json:"enabled"`           // the server has enabled it
	Indexes []string `json:"indexes,omitempty"` // URLs of the package indexes that the tool uses
	Hosts   []string `json:"hosts,omitempty"`   // hosts that a program may reach with it
	// Source is the origin of the indexes: mirror is the operator's setting, image is the configuration of the image's tool.
	Source   string     `json:"source,omitempty"`
	LearntAt *time.Time `json:"learnt_at,omitempty"`
	Reason   string     `json:"reason,omitempty"` // why it cannot be used
	Hint     string     `json:"hint,omitempty"`   // how to fix that
}

// EgressReport lists the destinations that a sandbox reached, and those that were denied.
type EgressReport struct {
	Allowed  int          `json:"allowed"` // connections
	Denied   int          `json:"denied"`  // connections and names
	BytesIn  int64        `json:"bytes_in"`
	BytesOut int64        `json:"bytes_out"`
	Hosts    []EgressHost `json:"hosts"` // at most 100
	// Presets are the request's presets with their expansions.
	Presets []NetworkPreset `json:"presets,omitempty"`
}

// EgressHost is one row of an [EgressReport]: a host, with the rule that allowed it or the reason why it was denied.
type EgressHost struct {
	Host     string `json:"host"`
	IP       string `json:"ip,omitempty"`     // the last address dialled
	Rule     string `json:"rule,omitempty"`   // the rule that allowed it
	Reason   string `json:"reason,omitempty"` // why it was denied: no_match, dns_mismatch, private_address, …
	Allowed  int    `json:"allowed"`
	Denied   int    `json:"denied"`
	BytesIn  int64  `json:"bytes_in"`
	BytesOut int64  `json:"bytes_out"`
}

// NetworkCheck is the predicted handling of a URL: the result of a dry run.
type NetworkCheck struct {
	URL       string   `json:"url"`
	Host      string   `json:"host"`
	Port      int      `json:"port"`
	Allowed   bool     `json:"allowed"`
	Rule      string   `json:"rule,omitempty"`
	Reason    string   `json:"reason,omitempty"`
	Message   string   `json:"message"`
	Addresses []string `json:"addresses,omitempty"` // the host's current addresses, without those that no request can reach
}

// The network policies of a run or session.
const (
	NetworkDenyAll   = "deny_all"  // no egress: the default
	NetworkAllowlist = "allowlist" // the destinations in [Egress], within the server's rules
)

// maxEgressRules bounds the rules of a request.
const maxEgressRules = 1000

// NetworkSpec is the network policy of a session.
type NetworkSpec struct {
	NetworkPolicy string `json:"network_policy"` // deny_all | allowlist
	Egress        Egress `json:"egress,omitzero"`
}

// Validate checks the policy as far as that is possible without the server's rules. The error is [CodeInvalidRequest] and names the
// field.
func (s NetworkSpec) Validate() error {
	rules := s.Egress.Len()
	switch s.NetworkPolicy {
	case "", NetworkDenyAll:
		if rules > 0 {
			e := invalid("egress", "egress needs network_policy %s", NetworkAllowlist)
			e.Hint = "set network_policy to " + NetworkAllowlist
			return e
		}
		return nil
	case NetworkAllowlist:
		if rules > maxEgressRules {
			e := invalid("egress", "egress is limited to %d rules, got %d", maxEgressRules, rules)
			e.Details["provided"], e.Details["maximum"] = rules, maxEgressRules
			return e
		}
		return s.Egress.checkPresets()
	}
	supported := []string{NetworkDenyAll, NetworkAllowlist}
	return &Error{
		Code:    CodePolicyDenied,
		Message: fmt.Sprintf("network_policy %.64q is not available, only %s are", s.NetworkPolicy, strings.Join(supported, " and ")),
		Details: map[string]any{"field": "network_policy", "provided": shortened(s.NetworkPolicy), "supported": supported},
	}
}

// NetworkQuery asks how a URL would be handled: in a session, or with the given network policy.
type NetworkQuery struct {
	URL       string `json:"url" minLength:"1"` // https://host[:port]/…
	SessionID string `json:"session_id,omitempty"`
	// NetworkPolicy and Egress are as in [RunSpec], and excluded with a session. Presets are those of the host image.
	NetworkPolicy string `json:"network_policy,omitempty"`
	Egress        Egress `json:"egress,omitzero"`
}

// Validate checks the query as far as that is possible without the server's rules. The error is [CodeInvalidRequest] and names the
// field.
func (q NetworkQuery) Validate() error {
	switch {
	case q.URL == "":
		return invalid("url", "url is required")
	case q.SessionID != "" && (q.NetworkPolicy != "" || q.Egress.Len() > 0):
		return invalid("session_id", "session_id excludes network_policy and egress: a session has its network")
	}
	return NetworkSpec{q.NetworkPolicy, q.Egress}.Validate()
}

func (e Egress) checkPresets() error {
	for i, name := range e.Presets {
		field := fmt.Sprintf("egress.presets[%d]", i)
		if !slices.Contains(EgressPresets(), name) {
			wrong := invalid(field, "%s: there is no preset %.64q", field, name)
			wrong.Details["provided"], wrong.Details["supported"] = shortened(name), EgressPresets()
			wrong.Hint = "presets are " + strings.Join(EgressPresets(), ", ")
			return wrong
		}
		if slices.Contains(e.Presets[:i], name) {
			return invalid(field, "%s: %q is there twice", field, name)
		}
	}
	return nil
}

// Len is the number of rules and presets.
func (e Egress) Len() int { return len(e.Hosts) + len(e.CIDRs) + len(e.IPs) + len(e.Presets) }

// IsZero reports whether there are no rules and no presets.
func (e Egress) IsZero() bool { return e.Len() == 0 }

// List returns the rules in one list, in the form that [ParseEgress] accepts, without the presets.
func (e Egress) List() []string { return slices.Concat(e.Hosts, e.CIDRs, e.IPs) }

// ParseEgress sorts rules by kind: hosts, networks such as 203.0.113.0/24, and addresses. A rule that is neither a network
// nor an address counts as a host, and the server refuses it if it is invalid.
func ParseEgress(rules []string) (e Egress) {
	for _, rule := range rules {
		address, _, network := strings.Cut(rule, "/")
		switch _, err := netip.ParseAddr(address); {
		case err == nil && network:
			e.CIDRs = append(e.CIDRs, rule)
		case err == nil:
			e.IPs = append(e.IPs, rule)
		default:
			e.Hosts = append(e.Hosts, rule)
		}
	}
	return e
}
