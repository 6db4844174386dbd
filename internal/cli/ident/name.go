package ident

import (
	"context"
	"strings"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/cli/mistake"
)

// Terminal finds a terminal of a session by a prefix of its id, by its name, or as the newest one.
func Terminal(ctx context.Context, s belljar.Service, session, want string) (belljar.Terminal, error) {
	all, err := s.Terminals().List(ctx, session)
	if err != nil {
		return belljar.Terminal{}, err
	}
	if want == "last" && len(all) > 0 {
		return all[len(all)-1], nil
	}
	var found []belljar.Terminal
	for _, t := range all {
		if t.ID == want || t.Name == want {
			return t, nil
		}
		if strings.HasPrefix(t.ID, want) {
			found = append(found, t)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return belljar.Terminal{}, mistake.New("belljar session shell "+session+" --list shows them", "the session has no terminal %s", want)
	}
	return belljar.Terminal{}, mistake.New("give more of its id", "%s begins the id of %d terminals", want, len(found))
}

// Scope parses NAMESPACE:ID[:NAME], as [belljar.Scope.String] writes it.
func Scope(text string) (belljar.Scope, error) {
	parts := strings.Split(text, ":")
	if len(parts) < 2 {
		return belljar.Scope{}, mistake.New("name it like workflow:run_123 or agent:7:scratch", "%s is not a scope", text)
	}
	if len(parts) > 3 {
		return belljar.Scope{}, mistake.New("write a colon in an id or a name as %3A", "%s has more than three parts", text)
	}
	plain := strings.NewReplacer("%3A", ":", "%3a", ":", "%25", "%")
	scope := belljar.Scope{Namespace: parts[0], ID: plain.Replace(parts[1])}
	if len(parts) == 3 {
		scope.Key = plain.Replace(parts[2])
	}
	return scope, scope.Validate()
}
