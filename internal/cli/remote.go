package cli

import (
	"errors"

	"github.com/belljar/belljar"
)

// remote does something with the server that the command line names. With json a failure is told as JSON too.
func (c *console) remote(json bool, do func(s belljar.Service) error) error {
	e, err := c.connect()
	if err == nil {
		err = errors.Join(do(e), e.Close())
	}
	var status exitStatus
	if err != nil && json && !errors.As(err, &status) {
		return c.failJSON(err)
	}
	return err
}
