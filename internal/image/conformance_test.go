//go:build linux

package image_test

import (
	"testing"

	"github.com/belljar/belljar/internal/image"
	"github.com/belljar/belljar/internal/image/imagetest"
)

func TestConformance(t *testing.T) {
	imagetest.Run(t, func(t *testing.T) imagetest.Subject {
		h := newHub(t)
		return imagetest.Subject{
			Library: open(t, image.Options{}, h),
			Publish: func(name, content string) string {
				h.put(name, build(t, spec{layers: [][]byte{tarOf(t, "file", content)}}))
				return h.ref(name)
			},
			Use: func(root image.Root) func() { return hold(t, root) },
		}
	})
}
