package cli

import (
	"context"
	"errors"
	"strings"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/cli/flagname"
	"github.com/belljar/belljar/internal/cli/mistake"
	"github.com/belljar/belljar/internal/cli/show"
)

// allowed returns the network of --allow flags. Without any it is the default.
func allowed(rules []string) (policy string, egress belljar.Egress) {
	if len(rules) == 0 {
		return "", egress
	}
	return belljar.NetworkAllowlist, belljar.ParseEgress(rules)
}

// networkCommands are belljar network ….
type networkCommands struct {
	Check networkCheck `cmd:"" help:"Print what would happen to a URL, and why, without connecting to it."`
}

// networkCheck is belljar network check.
type networkCheck struct {
	URL     string   `arg:"" name:"url" help:"What a program would connect to: https://api.example.com/v1"`
	Allow   []string `sep:"none" placeholder:"RULE" help:"As for belljar run. Repeatable."`
	Session string   `placeholder:"ID" help:"In place of --allow: a session on a server."`
	JSON    bool     `name:"json" help:"Print one JSON object."`
}

// Help is the long help.
func (n *networkCheck) Help() string {
	return `The host's name is resolved; nothing is sent to it. The status is 0 if the connection would be
allowed, and 1 if not. With --server, or BELLJAR_SERVER, the server's rules apply.

Examples:
  belljar network check https://api.example.com/v1 --allow '*.example.com'
  belljar --server http://127.0.0.1:8080 network check https://pypi.example --session 01a1fe25-cb55`
}

// Run checks a URL.
func (n *networkCheck) Run(ctx context.Context, c *console) error {
	check, err := n.check(ctx, c)
	switch {
	case err != nil && n.JSON:
		return c.failJSON(flagname.In(err))
	case err != nil:
		return flagname.In(err)
	case n.JSON:
		err = show.JSON(c.stdout, check)
	default:
		err = show.Lines(c.stdout, []string{flagname.Text(check.Message)})
	}
	if err == nil && !check.Allowed {
		return exitStatus(1)
	}
	return err
}

func (n *networkCheck) check(ctx context.Context, c *console) (check belljar.NetworkCheck, err error) {
	q := belljar.NetworkQuery{URL: n.URL}
	q.NetworkPolicy, q.Egress = allowed(n.Allow)
	if n.Session != "" && len(n.Allow) > 0 {
		return check, mistake.New("a session has its network", "--session and --allow exclude each other")
	}
	e, err := c.open("", false)
	if err != nil {
		return check, err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	if n.Session != "" {
		if !e.Remote {
			return check, mistake.New("--server URL, or BELLJAR_SERVER", "--session needs a server, which has sessions")
		}
		if q.SessionID, err = findSession(ctx, e, n.Session); err != nil {
			return check, err
		}
	}
	return e.Node().CheckNetwork(ctx, q)
}

// sessionNetwork is belljar session network.
type sessionNetwork struct {
	ID      string   `arg:"" name:"session" help:"The session; the beginning of its id will do."`
	Allow   []string `sep:"none" placeholder:"RULE" help:"Let it reach these from now on, and nothing else. Repeatable."`
	DenyAll bool     `help:"Let it reach nothing from now on."`
	JSON    bool     `name:"json" help:"Print one JSON object."`
}

// Help is the long help.
func (n *sessionNetwork) Help() string {
	return `Without flags, prints what the session may reach. A change applies at once: connections that the new
rules do not allow are cut.

Examples:
  belljar session network 01a1fe25-cb55
  belljar session network 01a1fe25-cb55 --allow api.example.com --allow '*.example.org'
  belljar session network 01a1fe25-cb55 --deny-all`
}

// Run shows or changes a session's network.
func (n *sessionNetwork) Run(ctx context.Context, c *console) error {
	return c.remote(n.JSON, func(s belljar.Service) error {
		if n.DenyAll && len(n.Allow) > 0 {
			return mistake.New("", "--deny-all and --allow exclude each other")
		}
		id, err := findSession(ctx, s, n.ID)
		if err != nil {
			return err
		}
		var spec belljar.NetworkSpec
		switch {
		case n.DenyAll:
			spec, err = s.Sessions().SetNetwork(ctx, id, belljar.NetworkSpec{NetworkPolicy: belljar.NetworkDenyAll})
		case len(n.Allow) > 0:
			spec.NetworkPolicy, spec.Egress = allowed(n.Allow)
			spec, err = s.Sessions().SetNetwork(ctx, id, spec)
		default:
			spec, err = s.Sessions().Network(ctx, id)
		}
		switch {
		case err != nil:
			return flagname.In(err)
		case n.JSON:
			return show.JSON(c.stdout, spec)
		}
		return show.Pairs(c.stdout, [][2]string{{"policy", spec.NetworkPolicy}, {"allow", strings.Join(spec.Egress.List(), " ")}})
	})
}
