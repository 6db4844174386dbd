package cli

import (
	"errors"

	"github.com/belljar/belljar"
)

// images calls do with the image store of the server, or of this machine if no server is set.
func (c *console) images(do func(belljar.Images) error) error {
	if c.server.given() {
		return c.remote(func(s belljar.Service) error { return do(s.Images()) })
	}
	images, err := c.machine.Images()
	if err != nil {
		return err
	}
	return errors.Join(do(images), images.Close())
}
