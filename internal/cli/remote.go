package cli

import (
	"context"
	"errors"
	"io"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/cli/ident"
	"github.com/belljar/belljar/internal/cli/image"
)

// partConsole is the console for commands in other packages.
type partConsole struct{ c *console }

func (p partConsole) Remote(do func(s belljar.Service) error) error { return p.c.remote(do) }
func (p partConsole) Images() image.Maker                           { return p.c.maker() }
func (p partConsole) Out() io.Writer                                { return p.c.stdout }

// remote calls do with the server of the command line.
func (c *console) remote(do func(s belljar.Service) error) error {
	e, err := c.connect()
	if err != nil {
		return err
	}
	return errors.Join(do(e), e.Close())
}

// inSession is remote for the session whose id begins with given.
func (c *console) inSession(ctx context.Context, given string, do func(s belljar.Service, id string) error) error {
	return c.remote(func(s belljar.Service) error {
		id, err := ident.Session(ctx, s, given)
		if err != nil {
			return err
		}
		return do(s, id)
	})
}
