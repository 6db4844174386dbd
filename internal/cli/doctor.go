package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/belljar/belljar/internal/local"
)

// doctorCommand is belljar doctor.
type doctorCommand struct {
	JSON bool `name:"json" help:"Print one JSON object."`
}

// Help is the long help.
func (d *doctorCommand) Help() string {
	return `Every protection is tried, not guessed. The exit status is 0 if programs can be run in isolation
here, 1 if not.`
}

// report is what doctor found out.
type report struct {
	Host     machine         `json:"host"`
	Runtimes []local.Runtime `json:"runtimes"`
}

// Run examines the host and every runtime of this binary.
func (d *doctorCommand) Run(ctx context.Context, c *console) error {
	found, err := c.machine.Examine(ctx)
	if err != nil {
		return err
	}
	r := report{Host: examineHost(c), Runtimes: found}
	available := false
	for _, rt := range found {
		available = available || rt.Available
		if rt.Name == "native" && forbidden(rt) { // what is missing of one that works, its protections tell
			r.Host.Hint = containerHint(r.Host.Container)
		}
	}
	if d.JSON {
		err = writeJSON(c.stdout, r)
	} else {
		err = r.print(c.stdout, newPalette(c.colour()))
	}
	if err != nil {
		return err
	}
	if !available {
		return exitStatus(1)
	}
	return nil
}

// forbidden reports whether a runtime does not work because somebody forbids it, as a container's engine does: some say that
// a system call does not exist.
func forbidden(rt local.Runtime) bool {
	for _, why := range rt.Reasons {
		if !rt.Available && (why.Code == "host_permission_denied" || strings.Contains(why.Detail, "not implemented")) {
			return true
		}
	}
	return false
}

// print writes the report for people.
func (r report) print(w io.Writer, p palette) error {
	var b strings.Builder
	r.Host.print(&b, p)
	for _, rt := range r.Runtimes {
		printRuntime(rt, &b, p)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func printRuntime(r local.Runtime, b *strings.Builder, p palette) {
	state := p.good("available")
	if !r.Available {
		state = p.bad("not available here")
	}
	fmt.Fprintf(b, "\n%s  %s", p.bold("runtime "+r.Name), state)
	var facts []string
	if r.Isolation != "" {
		facts = append(facts, string(r.Isolation))
	}
	if r.Rootless {
		facts = append(facts, "rootless")
	}
	if r.Version != "" {
		facts = append(facts, r.Version)
	}
	if r.OOMScope != "" {
		facts = append(facts, "out of memory ends one "+r.OOMScope)
	}
	if len(facts) > 0 {
		fmt.Fprintf(b, "  %s", p.dim(strings.Join(facts, ", ")))
	}
	b.WriteByte('\n')
	for _, why := range r.Reasons {
		fmt.Fprintf(b, "  %s %s\n", p.bad("✗"), strings.TrimPrefix(why.Step+": "+why.Detail, ": "))
		advise(b, p, 4, why.Hint)
	}
	width := 0
	for _, prot := range r.Protections {
		width = max(width, len(prot.Name))
	}
	for _, prot := range r.Protections {
		mark, how := p.good("✓"), prot.By
		switch {
		case !prot.Enforced && how == "":
			mark, how = p.bad("✗"), "not enforced"
		case !prot.Enforced, prot.Weaker != "":
			mark = p.fair("~")
		}
		fmt.Fprintf(b, "  %s %-*s  %s\n", mark, width, prot.Name, how)
		if prot.Weaker != "" {
			fmt.Fprintf(b, "    %*s  %s\n", width, "", p.dim("weaker: "+prot.Weaker))
		}
		if prot.Hint != "" {
			advise(b, p, width+6, prot.Hint)
		}
	}
}

func advise(b *strings.Builder, p palette, indent int, hint string) {
	if hint != "" {
		fmt.Fprintf(b, "%*s%s\n", indent, "", p.fair("fix: ")+hint)
	}
}

// palette paints words where there is a terminal, and leaves them alone elsewhere.
type palette struct{ on bool }

func newPalette(on bool) palette { return palette{on: on} }

func (p palette) bold(s string) string { return p.paint("1", s) }
func (p palette) dim(s string) string  { return p.paint("2", s) }
func (p palette) good(s string) string { return p.paint("32", s) }
func (p palette) fair(s string) string { return p.paint("33", s) }
func (p palette) bad(s string) string  { return p.paint("31", s) }

func (p palette) paint(code, s string) string {
	if !p.on {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}
