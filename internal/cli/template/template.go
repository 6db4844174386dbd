// Package template implements the commands about templates.
package template

import (
	"context"
	"io"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/cli/image"
	"github.com/belljar/belljar/internal/cli/mistake"
	"github.com/belljar/belljar/internal/cli/show"
)

// Console is the environment of a command.
type Console interface {
	// Remote calls do with the server of the command line. With json, it also prints a failure as JSON.
	Remote(do func(s belljar.Service) error) error
	// Images makes images on this machine.
	Images() image.Maker
	Out() io.Writer
}

// Commands are belljar template ….
type Commands struct {
	Build build  `cmd:"" help:"Build a template from a file, if something has changed."`
	LS    list   `cmd:"" name:"ls" help:"List templates."`
	RM    remove `cmd:"" name:"rm" help:"Remove templates with their files."`
}

// Help is the text of --help.
func (Commands) Help() string {
	return `A template is an image, packages, environment and files by a name, for sessions and runs.

Examples:
  belljar template build data-science.yaml
  belljar run --template data-science -- python3 app/main.py
  belljar session create --template data-science`
}

// list is belljar template ls.
type list struct {
	JSON bool `name:"json" help:"Print one JSON array."`
}

// Run lists templates.
func (l *list) Run(ctx context.Context, c Console) error {
	return c.Remote(func(s belljar.Service) error {
		all, err := s.Templates().List(ctx)
		if err != nil {
			return err
		}
		return show.List(c.Out(), l.JSON, all, "TEMPLATE FOR IMAGE SIZE BUILT WHY", func(x belljar.Template) []string {
			of := "you"
			if x.Shared {
				of = "all"
			}
			when := show.RoughDuration(time.Since(x.BuiltAt)) + " ago"
			if x.Building != "" {
				when = "now: " + x.Building
			}
			return []string{x.Name, of, x.BaseImage, show.Bytes(x.Bytes), when, x.Reason}
		})
	})
}

// remove is belljar template rm.
type remove struct {
	Names  []string `arg:"" name:"template" help:"The templates."`
	Shared bool     `help:"Remove the shared templates of these names (operators only)."`
	JSON   bool     `name:"json" help:"Print the names as one JSON array."`
}

// Run removes templates and reports those that it cannot remove.
func (r *remove) Run(ctx context.Context, c Console) error {
	return c.Remote(func(s belljar.Service) error {
		removed, err := mistake.Each(r.Names, func(name string) (string, error) { return name, s.Templates().Remove(ctx, name, r.Shared) })
		if err == nil && r.JSON {
			return show.JSON(c.Out(), removed)
		}
		return err
	})
}
