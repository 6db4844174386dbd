package secret

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/egress"
	"github.com/belljar/belljar/internal/secret/redact"
	"github.com/belljar/belljar/internal/service/placement"
)

// Broker prepares the brokered secrets of a sandbox, whose values are known; nil if there are none. It refuses a secret whose
// host the sandbox may not reach, unless the clone of its repository uses it. clone may be nil.
func (s *Secrets) Broker(p *placement.Placement, secrets map[string]belljar.Secret, clone *belljar.GitSpec) (*placement.Broker, error) {
	var hosts []string
	for _, name := range slices.Sorted(maps.Keys(secrets)) {
		got := secrets[name]
		if !got.Brokered() {
			continue
		}
		if err := got.CheckBrokered("secrets." + name + ".value"); err != nil {
			return nil, err
		}
		if err := reaches(p.Egress, "secrets."+name+".host", got.Host); err != nil && (clone == nil || clone.Secret != name) {
			return nil, err
		}
		hosts = append(hosts, got.Host)
	}
	if len(hosts) == 0 {
		return nil, nil
	}
	slices.Sort(hosts)
	authority, err := egress.NewAuthority(slices.Compact(hosts), s.Now())
	if err != nil {
		return nil, err
	}
	return s.broker(secrets, authority), nil
}

// BrokerGit prepares the secret of a repository, if it has one, only for the side sandbox that clones it.
func (s *Secrets) BrokerGit(side *placement.Placement, g *belljar.GitSpec, secrets map[string]belljar.Secret) error {
	if g == nil || g.Secret == "" {
		return nil
	}
	got, err := g.Credential(secrets)
	if err != nil {
		return err
	}
	authority, err := egress.NewAuthority([]string{got.Host}, s.Now())
	if err != nil {
		return err
	}
	side.Broker = s.broker(map[string]belljar.Secret{g.Secret: got}, authority)
	return nil
}

// reaches refuses a host that a policy denies over HTTPS.
func reaches(p *egress.Policy, field, host string) error {
	e := &belljar.Error{
		Code: belljar.CodeInvalidRequest, Message: fmt.Sprintf("a secret goes to %s, which the sandbox may not reach", host),
		Details: map[string]any{"field": field, "provided": host},
		Hint:    fmt.Sprintf("set network_policy to %s and list %s in egress.hosts (--allow %s)", belljar.NetworkAllowlist, host, host),
	}
	if p == nil {
		return e
	}
	own := egress.Policy{Run: p.Run, Server: egress.Any(), Ports: p.Ports}
	switch _, reason := p.Decide(host, 443); {
	case reason == "":
		return nil
	case reason == egress.PortDenied:
		e.Code, e.Details["rule"], e.Hint = belljar.CodePolicyDenied, "SANDBOX_EGRESS_PORTS", "an operator adds 443 to SANDBOX_EGRESS_PORTS"
	default:
		if _, reason := own.Decide(host, 443); reason == "" {
			e.Code, e.Details["rule"], e.Hint = belljar.CodePolicyDenied, "SANDBOX_EGRESS_ALLOW", "an operator lists "+host+" in "+p.Lists()
		}
	}
	return e
}

// broker returns the brokered secrets of a sandbox that trusts an authority.
func (s *Secrets) broker(secrets map[string]belljar.Secret, authority *egress.Authority) *placement.Broker {
	b := &placement.Broker{Egress: &egress.Broker{Authority: authority, Roots: s.Roots}, Placeholders: map[string]string{}}
	var hide []string
	for _, name := range slices.Sorted(maps.Keys(secrets)) {
		got := secrets[name]
		if !got.Brokered() {
			continue
		}
		header, value := got.Credential()
		b.Egress.Credentials = append(b.Egress.Credentials, egress.Credential{Host: got.Host, Header: header, Value: value})
		mark := sha256.Sum256(append(authority.PEM(), name...)) // the same after a restart, and reveals nothing
		b.Placeholders[name] = "belljar-secret-" + hex.EncodeToString(mark[:8])
		hide = append(hide, strings.TrimSpace(got.Value))
		if user, ok := strings.CutPrefix(value, "Basic "); ok {
			hide = append(hide, user)
		}
	}
	b.Egress.Hidden = redact.New(hide...)
	return b
}
