package mcp

import (
	"maps"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/nearest"
)

// narrowed are the terms of a client whose URL has a query: those of the server, or less. The operator of the client
// writes it; the server's terms hold in any case.
func (t Terms) narrowed(query string) (Terms, error) {
	q, err := url.ParseQuery(query)
	if err != nil || len(query) > maxQuery {
		return t, refuse("url", "the query of the URL cannot be read, or is longer than %d bytes", maxQuery)
	}
	n := narrowing{Terms: t}
	trust, mode := string(n.TrustLevel), string(n.Mode)
	wait, output := 0.0, 0
	parameters := map[string]func(name, value string) error{
		"agent": n.text(&n.Agent), "image": n.text(&n.Image), "isolation": n.text(&n.Isolation), "language": n.text(&n.Language),
		"runtime": n.text(&n.Runtime), "session": n.text(&n.Session), "trust": n.text(&trust), "workflow": n.text(&n.Workflow),
		"cpu": n.number(&n.Resources.CPU), "idle_timeout": n.number(&n.IdleTimeoutSec), "timeout": n.number(&n.TimeoutSec), "wait": n.number(&wait),
		"max_output": n.whole(&output), "memory_mb": n.whole(&n.Resources.MemoryMB), "workspace_mb": n.whole(&n.Resources.WorkspaceMB),
		"mode": func(name, value string) error {
			if value == string(belljar.ToolsCompute) {
				mode = ""
			}
			return n.text(&mode)(name, value)
		},
		"tools":   n.tools,
		"capture": func(string, string) error { return nil },
	}
	names := slices.Sorted(maps.Keys(parameters))
	for _, name := range slices.Sorted(maps.Keys(q)) {
		take, known := parameters[name]
		if !known {
			e := refuse(name, "the URL has an unknown parameter %.40q", name)
			e.Hint = "the parameters are " + strings.Join(names, ", ")
			if near := nearest.Of(name, 3, names); near != "" {
				e.Hint = "did you mean " + near + "? " + e.Hint
			}
			return t, e
		}
		if len(q[name]) > 1 && name != "capture" {
			return t, refuse(name, "the URL has %s more than once", name)
		}
		if err := take(name, q.Get(name)); err != nil {
			return t, err
		}
	}
	n.TrustLevel, n.Mode = belljar.TrustLevel(trust), belljar.ToolMode(mode)
	if wait > 0 {
		n.Wait = time.Duration(min(wait, MaxWait.Seconds()+1) * float64(time.Second))
	}
	if output > 0 {
		n.MaxOutput = output
	}
	n.Capture = append(slices.Clone(t.Capture), q["capture"]...)
	return n.Terms, n.Terms.complete()
}

// maxQuery bounds the query of a URL: a session's id holds it.
const maxQuery = 512

// narrowing reads a query over the terms of a server.
type narrowing struct{ Terms }

// text takes a value that the server may have fixed.
func (narrowing) text(field *string) func(name, value string) error {
	return func(name, value string) (err error) {
		*field, err = fixed(name, value, *field)
		return err
	}
}

// number takes a value that the server may have bounded.
func (narrowing) number(field *float64) func(name, value string) error {
	return func(name, text string) error {
		if text == "" {
			return nil
		}
		asked, err := strconv.ParseFloat(text, 64)
		if err != nil {
			var span time.Duration
			if span, err = time.ParseDuration(text); err == nil {
				asked = span.Seconds()
			}
		}
		switch {
		case err != nil || !(asked > 0) || math.IsInf(asked, 0):
			return refuse(name, "%s of the URL is %.40q, and no number above 0", name, text)
		case *field > 0 && asked > *field:
			return bound(name, asked, *field, "%s is %v at most on this server, the URL asks for %v", name, *field, asked)
		}
		*field = asked
		return nil
	}
}

func (n narrowing) whole(field *int) func(name, value string) error {
	return func(name, text string) error {
		value := float64(*field)
		if err := n.number(&value)(name, text); err != nil {
			return err
		}
		if value != math.Trunc(value) || value > math.MaxInt32 {
			return refuse(name, "%s of the URL must be a whole number", name)
		}
		*field = int(value)
		return nil
	}
}

// tools takes the names of tools, of which the server may offer a few.
func (n *narrowing) tools(_, list string) error {
	offered := n.Tools
	var picked []string
	for name := range strings.SplitSeq(list, ",") {
		switch {
		case name == "":
		case len(offered) > 0 && !slices.Contains(offered, name):
			return bound("tools", name, offered, "this server offers %s, and not %.40q", strings.Join(offered, ", "), name)
		default:
			picked = append(picked, name)
		}
	}
	if len(picked) > 0 {
		n.Tools = picked
	}
	return nil
}
