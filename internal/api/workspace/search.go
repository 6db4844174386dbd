package workspace

import (
	"context"
	"path"
	"regexp"
	"strings"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
)

const (
	maxDepth   = 10 // folders below the searched one
	maxFinds   = 1000
	maxPattern = 256 // bytes
)

// find is a file that a search found, or with content= a line in one.
type find struct {
	Name string `json:"name"`
	Path string `json:"path"`
	Dir  string `json:"dir"`
	Line int    `json:"line,omitempty"` // from 1
	Text string `json:"text,omitempty"`
}

// finds is the answer of GET /api/search.
type finds struct {
	Results []find `json:"results"`
	Pattern string `json:"pattern"`
	Path    string `json:"path"`
	cut
}

// search looks for files and folders by their names, and with content= for lines of files.
func (c *call) search(p string) (any, error) {
	text, _ := c.query("content", "")
	all := []string{"*"} // without q=, if there is content=
	if text == "" {
		all = nil
	}
	pattern, err := c.query("q", all...)
	if err != nil {
		return nil, err
	}
	if pattern == "" || len(pattern) > maxPattern {
		return nil, missing{{[]string{"query", "q"}, "String should have 1 to 256 characters", "string_length"}}
	}
	match, err := glob(pattern)
	if err != nil {
		return nil, missing{{[]string{"query", "q"}, "Value is not a pattern", "value_error"}}
	}
	release, err := c.door.opts.Bodies.ForFiles(c.r.Context(), c.Engine.Files(), c.Session, maxFinds*api.MatchBytes)
	if err != nil {
		return nil, err
	}
	c.sent = append(c.sent, release)
	found, reason, err := c.finds(p, text)
	if err != nil {
		return nil, explained(err, p)
	}
	out := finds{Pattern: pattern, Path: p, cut: reason}
	out.choose(found, match.MatchString)
	return out, nil
}

// choose adds the finds whose names match.
func (out *finds) choose(found []find, match func(name string) bool) {
	out.Results = []find{}
	until := time.Now().Add(lookTime) // a pattern of stars takes almost a millisecond for a long name
	for _, f := range found {
		if time.Now().After(until) {
			out.cut = cut{true, "time_limited"}
			return
		}
		below := f.Path
		if out.Path != "." {
			below = strings.TrimPrefix(f.Path, out.Path+"/")
		}
		f.Name, f.Dir = path.Base(f.Path), path.Dir(f.Path)
		if f.Dir == "." {
			f.Dir = ""
		}
		switch {
		case strings.Count(below, "/") > maxDepth:
			if !out.Truncated {
				out.cut = cut{true, "depth_limited"}
			}
		case !match(f.Name):
		case len(out.Results) == maxFinds:
			out.cut = cut{true, "node_limited"}
		default:
			out.Results = append(out.Results, f)
		}
	}
}

// finds returns everything below a folder, or the lines of files that contain a text.
func (c *call) finds(p, text string) (all []find, reason cut, err error) {
	ctx, stop := context.WithTimeout(c.r.Context(), lookTime)
	defer stop()
	if text == "" {
		list, reason, err := c.look(ctx, p, true)
		for _, e := range list.Entries {
			all = append(all, find{Path: e.Path})
		}
		return all, reason, err
	}
	found, err := c.Engine.Files().Search(c.r.Context(), c.Session, belljar.FileSearch{Path: p, Content: text, MaxResults: maxFinds})
	for _, m := range found.Matches {
		all = append(all, find{Path: m.Path, Line: m.Line, Text: m.Text})
	}
	if found.Truncated {
		reason = cut{true, "node_limited"}
	}
	return all, reason, err
}

// glob returns the expression for a pattern, which must match a whole name: * is any text, ? any character, [abc], [a-z] and [!a] one
// of a set. Case does not matter. A [ without its ] is literal.
func glob(pattern string) (*regexp.Regexp, error) {
	part := regexp.MustCompile(`(?s)\[!.[^\]]*\]|\[[^!][^\]]*\]|.`)
	escape := strings.NewReplacer(`\`, `\\`, `[`, `\[`, `]`, `\]`, `^`, `\^`, `&`, `\&`, `~`, `\~`)
	return regexp.Compile(`(?is)\A` + part.ReplaceAllStringFunc(pattern, func(p string) string {
		switch {
		case p == "*":
			return `.*`
		case p == "?":
			return `.`
		case len(p) > 2 && p[0] == '[':
			set, negated := strings.CutPrefix(p[1:len(p)-1], "!")
			if set = escape.Replace(set); negated {
				set = "^" + set
			}
			return "[" + set + "]"
		}
		return regexp.QuoteMeta(p)
	}) + `\z`)
}
