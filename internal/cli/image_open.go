package cli

import (
	"errors"

	"github.com/belljar/belljar"
)

// images calls do with the image store of the server, or of this machine if no server is set. With json, it also prints a failure
// as JSON.
func (c *console) images(json bool, do func(belljar.Images) error) error {
	if c.server.given() {
		return c.remote(json, func(s belljar.Service) error { return do(s.Images()) })
	}
	err := c.ownImages(do)
	var status exitStatus
	if err != nil && json && !errors.As(err, &status) {
		return c.failJSON(err)
	}
	return err
}

func (c *console) ownImages(do func(belljar.Images) error) error {
	images, err := c.machine.Images()
	if err != nil {
		return err
	}
	return errors.Join(do(images), images.Close())
}
