package cli

import (
	"context"
	"errors"
	"strings"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/cli/field"
	"github.com/belljar/belljar/internal/cli/ident"
	"github.com/belljar/belljar/internal/cli/mistake"
	"github.com/belljar/belljar/internal/cli/show"
)

// presetFlags are the presets of a network.
type presetFlags struct {
	AllowPreset []string `group:"what" sep:"none" placeholder:"NAME" help:"Let a tool get packages from the index that it is set to use: pip, npm, cargo, go, maven, apt, github. Repeatable."`
}

// allowed returns the network of --allow and --allow-preset flags. Without flags it is the default.
func allowed(rules, presets []string) (policy string, egress belljar.Egress) {
	if len(rules)+len(presets) == 0 {
		return "", egress
	}
	egress = belljar.ParseEgress(rules)
	egress.Presets = presets
	return belljar.NetworkAllowlist, egress
}

// networkCommands are belljar network ….
type networkCommands struct {
	Check networkCheck `cmd:"" help:"Print whether a program could connect to a URL, and why, without connecting."`

	Presets networkPresets `cmd:"" help:"Print the indexes and hosts of each preset of --allow-preset, or why it cannot be used."`
}

// networkPresets is belljar network presets.
type networkPresets struct {
	Image string `placeholder:"REF" help:"The image whose tools Belljar asks (default host)."`
	JSON  bool   `name:"json" help:"Print one JSON list."`
}

func (n *networkPresets) Help() string {
	return `Belljar asks the tools of the image which index they use, and each index on which hosts its files are. It keeps the
answers for a day. With --server, or BELLJAR_SERVER, the server asks.

Examples:
  belljar network presets
  belljar network presets --image python:3.12-slim`
}

// Run prints the presets.
func (n *networkPresets) Run(ctx context.Context, c *console) error {
	list, err := n.list(ctx, c)
	if err != nil {
		return err
	}
	return show.List(c.stdout, n.JSON, list, "PRESET STATE FROM INDEX HOSTS REASON", func(p belljar.NetworkPreset) []string {
		row := []string{p.Name, "off", "", "", "", p.Reason}
		if p.Enabled {
			row[1] = "on"
		}
		if p.Reason == "" {
			row = []string{p.Name, row[1], p.Source, strings.Join(p.Indexes, " "), strings.Join(p.Hosts, " "), ""}
		}
		return row
	})
}

func (n *networkPresets) list(ctx context.Context, c *console) (list []belljar.NetworkPreset, err error) {
	c.image = n.Image
	e, err := c.open("", false)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	if n.Image != "" {
		if err := c.readyImage(ctx, e, n.Image, ""); err != nil {
			return nil, err
		}
	}
	return e.Node().NetworkPresets(ctx, n.Image)
}

// networkCheck is belljar network check.
type networkCheck struct {
	URL   string   `arg:"" name:"url" help:"The URL, such as https://api.example.com/v1"`
	Allow []string `sep:"none" placeholder:"RULE" help:"As for belljar run. Repeatable."`
	presetFlags
	Session string `placeholder:"ID" help:"Check with the rules of this session, instead of --allow."`
	JSON    bool   `name:"json" help:"Print one JSON object."`
}

func (n *networkCheck) Help() string {
	return `Belljar resolves the host's name and connects to nothing. The exit status is 0 if the connection would be allowed, and
1 if not. With --server, or BELLJAR_SERVER, the server's rules apply.

Examples:
  belljar network check https://api.example.com/v1 --allow '*.example.com'
  belljar --server http://127.0.0.1:8080 network check https://pypi.example --session 01a1fe25-cb55`
}

// Run checks a URL.
func (n *networkCheck) Run(ctx context.Context, c *console) error {
	check, err := n.check(ctx, c)
	switch {
	case err != nil:
		return field.InFlags(err)
	case n.JSON:
		err = show.JSON(c.stdout, check)
	default:
		err = show.Lines(c.stdout, []string{field.Words(check.Message)})
	}
	if err == nil && !check.Allowed {
		return exitStatus(1)
	}
	return err
}

func (n *networkCheck) check(ctx context.Context, c *console) (check belljar.NetworkCheck, err error) {
	q := belljar.NetworkQuery{URL: n.URL}
	q.NetworkPolicy, q.Egress = allowed(n.Allow, n.AllowPreset)
	if n.Session != "" && q.NetworkPolicy != "" {
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
		if q.SessionID, err = ident.Session(ctx, e, n.Session); err != nil {
			return check, err
		}
	}
	return e.Node().CheckNetwork(ctx, q)
}

// sessionNetwork is belljar session network.
type sessionNetwork struct {
	ID    string   `arg:"" name:"session" help:"The session: its id, or the beginning of it."`
	Allow []string `sep:"none" placeholder:"RULE" help:"Let the session reach this host, network or address, and nothing else. Repeatable."`
	presetFlags
	DenyAll bool `help:"Let the session reach nothing."`
	JSON    bool `name:"json" help:"Print one JSON object."`
}

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
	return c.remote(func(s belljar.Service) error {
		policy, egress := allowed(n.Allow, n.AllowPreset)
		if n.DenyAll && policy != "" {
			return mistake.New("", "--deny-all excludes --allow and --allow-preset")
		}
		id, err := ident.Session(ctx, s, n.ID)
		if err != nil {
			return err
		}
		var spec belljar.NetworkSpec
		switch {
		case n.DenyAll:
			spec, err = s.Sessions().SetNetwork(ctx, id, belljar.NetworkSpec{NetworkPolicy: belljar.NetworkDenyAll})
		case policy != "":
			spec, err = s.Sessions().SetNetwork(ctx, id, belljar.NetworkSpec{NetworkPolicy: policy, Egress: egress})
		default:
			spec, err = s.Sessions().Network(ctx, id)
		}
		switch {
		case err != nil:
			return field.InFlags(err)
		case policy != "":
			session, err := s.Sessions().Get(ctx, id)
			if err != nil {
				return err
			}
			c.warn(session)
		}
		if n.JSON {
			return show.JSON(c.stdout, spec)
		}
		return show.Pairs(c.stdout, [][2]string{{"policy", spec.NetworkPolicy}, {"allow", strings.Join(spec.Egress.List(), " ")}, {"presets", strings.Join(spec.Egress.Presets, " ")}})
	})
}
