package cli

import (
	"context"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/cli/field"
	"github.com/belljar/belljar/internal/cli/ident"
	"github.com/belljar/belljar/internal/cli/show"
)

// sessionHibernate is belljar session hibernate.
type sessionHibernate struct {
	ID    string `arg:"" name:"session" help:"The session; the beginning of its id will do."`
	Force bool   `help:"End what runs in it: runs, terminals, contexts and background processes."`
	JSON  bool   `name:"json" help:"Print the session as one JSON object."`
}

// Help is the long help.
func (h *sessionHibernate) Help() string {
	return `Its files are saved, and the directory, variables and functions of its shell. The next request that needs the sandbox brings it back, with
the session's id, scope, time, network and packages. /tmp is empty then.`
}

// Run has a session hibernate.
func (h *sessionHibernate) Run(ctx context.Context, c *console) error {
	return c.remote(h.JSON, func(s belljar.Service) error {
		id, err := ident.Session(ctx, s, h.ID)
		if err != nil {
			return err
		}
		state, err := s.Sessions().Hibernate(ctx, id, belljar.HibernateSpec{Force: h.Force})
		switch {
		case err != nil:
			return field.InFlags(err)
		case h.JSON:
			return show.JSON(c.stdout, state)
		}
		return nil
	})
}
