package mcp

import (
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/belljar/belljar"
)

// narrowed are the terms of a client whose URL has a query: those of the server, or less. The operator of the client
// writes it; the server's terms hold in any case.
func (t Terms) narrowed(query string) (Terms, error) {
	q, err := url.ParseQuery(query)
	if err != nil || len(query) > maxQuery {
		return t, refuse("url", "the query of the URL cannot be read, or is longer than %d bytes", maxQuery)
	}
	names := []string{
		"agent", "capture", "cpu", "idle_timeout", "image", "isolation", "language", "max_output", "memory_mb", "mode", "runtime", "session", "timeout",
		"tools", "trust", "wait", "workflow", "workspace_mb",
	}
	for name, values := range q {
		if !slices.Contains(names, name) {
			e := refuse(name, "the URL has an unknown parameter %.40q", name)
			e.Hint = "the parameters are " + strings.Join(names, ", ")
			if near := belljar.Nearest(name, 3, names); near != "" {
				e.Hint = "did you mean " + near + "? " + e.Hint
			}
			return t, e
		}
		if len(values) > 1 && name != "capture" {
			return t, refuse(name, "the URL has %s more than once", name)
		}
	}
	n := narrowing{Terms: t, q: q}
	n.text("image", &n.Image)
	n.text("runtime", &n.Runtime)
	n.text("language", &n.Language)
	n.text("isolation", &n.Isolation)
	n.text("workflow", &n.Workflow)
	n.text("session", &n.Session)
	n.text("agent", &n.Agent)
	trust, mode := string(n.TrustLevel), string(n.Mode)
	n.text("trust", &trust)
	if q.Get("mode") == string(belljar.ToolsCompute) {
		mode = ""
	}
	n.text("mode", &mode)
	n.TrustLevel, n.Mode = belljar.TrustLevel(trust), belljar.ToolMode(mode)
	n.number("timeout", &n.TimeoutSec)
	n.number("idle_timeout", &n.IdleTimeoutSec)
	n.number("cpu", &n.Resources.CPU)
	n.whole("memory_mb", &n.Resources.MemoryMB)
	n.whole("workspace_mb", &n.Resources.WorkspaceMB)
	wait, output := 0.0, 0
	n.number("wait", &wait)
	n.whole("max_output", &output)
	if wait > 0 {
		n.Wait = time.Duration(min(wait, MaxWait.Seconds()+1) * float64(time.Second))
	}
	if output > 0 {
		n.MaxOutput = output
	}
	for name := range strings.SplitSeq(q.Get("tools"), ",") {
		if name == "" {
			continue
		}
		if len(t.Tools) > 0 && !slices.Contains(t.Tools, name) {
			n.fail(bound("tools", name, t.Tools, "this server offers %s, and not %.40q", strings.Join(t.Tools, ", "), name))
		}
		n.picked = append(n.picked, name)
	}
	if len(n.picked) > 0 {
		n.Tools = n.picked
	}
	n.Capture = append(slices.Clone(t.Capture), q["capture"]...)
	if n.err != nil {
		return t, n.err
	}
	return n.Terms, n.Terms.complete()
}

// maxQuery bounds the query of a URL: a session's id holds it.
const maxQuery = 512

// narrowing reads a query over the terms of a server.
type narrowing struct {
	Terms
	q      url.Values
	picked []string
	err    error
}

func (n *narrowing) fail(err error) {
	if n.err == nil {
		n.err = err
	}
}

// text takes a value that the server may have fixed.
func (n *narrowing) text(name string, field *string) {
	chosen, err := fixed(name, n.q.Get(name), *field)
	if err != nil {
		n.fail(err)
		return
	}
	*field = chosen
}

// number takes a value that the server may have bounded.
func (n *narrowing) number(name string, field *float64) {
	text := n.q.Get(name)
	if text == "" {
		return
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
		n.fail(refuse(name, "%s of the URL is %.40q, and no number above 0", name, text))
	case *field > 0 && asked > *field:
		n.fail(bound(name, asked, *field, "%s is %v at most on this server, the URL asks for %v", name, *field, asked))
	default:
		*field = asked
	}
}

func (n *narrowing) whole(name string, field *int) {
	value := float64(*field)
	n.number(name, &value)
	if value != math.Trunc(value) || value > math.MaxInt32 {
		n.fail(refuse(name, "%s of the URL must be a whole number", name))
		return
	}
	*field = int(value)
}
