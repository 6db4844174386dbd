package cli

import (
	"errors"

	"github.com/belljar/belljar"
)

// remote calls do with the server of the command line. With json, it also prints a failure as JSON.
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
