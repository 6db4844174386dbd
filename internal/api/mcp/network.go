package mcp

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/belljar/belljar"
)

// How descriptions of tools name the network; [Terms.describe] replaces them for a client whose sandboxes have one.
const (
	withoutNetwork = "without network"
	noNetwork      = "There is no network."
)

// policy returns the network policy of the sandboxes; "" is the server's default.
func (t *Terms) policy() string {
	if t.Network {
		return belljar.NetworkAllowlist
	}
	return ""
}

// reaches reports whether sandboxes have a network.
func (t *Terms) reaches() bool { return t.Network || t.ServerNetwork }

// reach names what sandboxes reach, after words; none if they have no network.
func (t *Terms) reach(none, words string) string {
	const most = 10
	rules := t.Egress.List()
	for _, name := range t.Egress.Presets {
		rules = append(rules, "packages of "+name)
	}
	switch n := len(rules); {
	case !t.reaches():
		return none
	case !t.Network:
		return words + "what the server allows"
	case n == 0:
		return words + "nothing"
	case n > most:
		rules = append(slices.Clone(rules[:most]), fmt.Sprintf("%d more", n-most))
	}
	return words + strings.Join(rules, ", ") + " only"
}

// secrets describes for a client which secrets its sandboxes have; "" if there are none.
func (t *Terms) secrets() string {
	var files, lent []string
	for _, name := range slices.Sorted(maps.Keys(t.Secrets)) {
		if s := t.Secrets[name]; s.Brokered() {
			lent = append(lent, fmt.Sprintf("%s ($%s is a placeholder)", s.Host, name))
		} else {
			files = append(files, name)
		}
	}
	text := ""
	if len(files) > 0 {
		text = fmt.Sprintf(" Secrets are files in %s: %s. What is printed of them becomes asterisks.", belljar.SecretDir, strings.Join(files, ", "))
	}
	if len(lent) > 0 {
		text += " HTTPS requests to these hosts are given their credentials outside: " + strings.Join(lent, ", ") + "."
	}
	return text
}

// describe returns a text of this package as the client's terms have it.
func (t *Terms) describe(text string) string {
	if !t.reaches() {
		return text
	}
	return strings.NewReplacer(
		withoutNetwork, t.reach("", "with network access to "), noNetwork, t.reach("", "Network access: ")+".",
	).Replace(text)
}

// allow adds the rules that a client's URL allows. They must be among the server's, if it has a list. The server's presets stay.
func (t *Terms) allow(rules []string) error {
	if len(rules) == 0 {
		return nil
	}
	presets := t.Egress.Presets
	if all := t.Egress.List(); t.Network && (len(all) > 0 || len(presets) == 0) {
		for _, rule := range rules {
			if !slices.Contains(all, rule) {
				return exceeds("allow", rule, all, "this server allows %s, and not %.80q", strings.Join(all, ", "), rule)
			}
		}
	}
	t.Network, t.Egress = true, belljar.ParseEgress(rules)
	t.Egress.Presets = presets
	return nil
}
