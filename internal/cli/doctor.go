package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/cli/host"
	"github.com/belljar/belljar/internal/cli/show"
	"github.com/belljar/belljar/internal/local"
)

// doctorCommand is belljar doctor.
type doctorCommand struct {
	Config string `placeholder:"FILE" help:"YAML file with the server's settings, as for serve; without it, doctor uses those of the environment."`
	JSON   bool   `name:"json" help:"Print one JSON object."`
}

func (d *doctorCommand) Help() string {
	return `belljar tries every protection. The exit status is 0 if this host can run programs in isolation, and 1 if not.
If the settings name another belljar for the workspaces of the workspace API, doctor also checks that it answers; this
does not change the status.`
}

// report is the result of doctor.
type report struct {
	Host     host.Machine    `json:"host"`
	Runtimes []local.Runtime `json:"runtimes"`
	// Workspace is the other belljar that holds the workspaces of the workspace API; nil if the settings name none.
	Workspace *elsewhere `json:"workspace,omitempty"`
}

// elsewhere is the state of that belljar.
type elsewhere struct {
	Available bool   `json:"available"`
	Detail    string `json:"detail,omitempty"`
	Hint      string `json:"hint,omitempty"`
}

// Run examines the host and every runtime of this binary.
func (d *doctorCommand) Run(ctx context.Context, c *console) error {
	found, err := c.machine.Examine(ctx, d.Config)
	if err != nil {
		return err
	}
	r := report{Host: host.Examine(c.getenv), Runtimes: found}
	available := false
	for _, rt := range found {
		available = available || rt.Available
		if rt.Name == "native" && forbidden(rt) { // for an available runtime, the protections show what is missing
			r.Host.Hint = host.NestedHint(r.Host.Container)
		}
	}
	if asked, err := c.machine.Elsewhere(ctx, d.Config); asked {
		r.Workspace = &elsewhere{Available: err == nil, Hint: belljar.HintOf(err)}
		if err != nil {
			r.Workspace.Detail = err.Error()
		}
	}
	if d.JSON {
		err = show.JSON(c.stdout, r)
	} else {
		err = r.print(c.stdout, show.NewPalette(c.colour()))
	}
	if err != nil {
		return err
	}
	if !available {
		return exitStatus(1)
	}
	return nil
}

// forbidden reports whether a runtime is unavailable because the host denies a permission, as a container engine does. Some
// engines return ENOSYS for a forbidden system call.
func forbidden(rt local.Runtime) bool {
	for _, why := range rt.Reasons {
		if !rt.Available && (why.Code == "host_permission_denied" || strings.Contains(why.Detail, "not implemented")) {
			return true
		}
	}
	return false
}

// print writes the report for people.
func (r report) print(w io.Writer, p show.Palette) error {
	var b strings.Builder
	r.Host.Print(&b, p)
	for _, rt := range r.Runtimes {
		printRuntime(rt, &b, p)
	}
	if w := r.Workspace; w != nil && w.Available {
		fmt.Fprintf(&b, "\n%s  %s\n", p.Bold("workspace remote"), p.Good("available"))
	} else if w != nil {
		fmt.Fprintf(&b, "\n%s  %s\n  %s %s\n", p.Bold("workspace remote"), p.Bad("not available"), p.Bad("✗"), w.Detail)
		p.Advise(&b, 4, w.Hint)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func printRuntime(r local.Runtime, b *strings.Builder, p show.Palette) {
	state := p.Good("available")
	if !r.Available {
		state = p.Bad("not available here")
	}
	fmt.Fprintf(b, "\n%s  %s", p.Bold("runtime "+r.Name), state)
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
		fmt.Fprintf(b, "  %s", p.Dim(strings.Join(facts, ", ")))
	}
	b.WriteByte('\n')
	for _, why := range r.Reasons {
		fmt.Fprintf(b, "  %s %s\n", p.Bad("✗"), strings.TrimPrefix(why.Step+": "+why.Detail, ": "))
		p.Advise(b, 4, why.Hint)
	}
	width := 0
	for _, prot := range r.Protections {
		width = max(width, len(prot.Name))
	}
	for _, prot := range r.Protections {
		mark, how := p.Good("✓"), prot.By
		switch {
		case !prot.Enforced && how == "":
			mark, how = p.Bad("✗"), "not enforced"
		case !prot.Enforced, prot.Weaker != "":
			mark = p.Partial("~")
		}
		fmt.Fprintf(b, "  %s %-*s  %s\n", mark, width, prot.Name, how)
		if prot.Weaker != "" {
			fmt.Fprintf(b, "    %*s  %s\n", width, "", p.Dim("weaker: "+prot.Weaker))
		}
		if prot.Hint != "" {
			p.Advise(b, width+6, prot.Hint)
		}
	}
}
