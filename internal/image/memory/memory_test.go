package memory_test

import (
	"testing"

	"github.com/belljar/belljar/internal/image"
	"github.com/belljar/belljar/internal/image/imagetest"
	"github.com/belljar/belljar/internal/image/memory"
)

func TestConformance(t *testing.T) {
	imagetest.Run(t, func(*testing.T) imagetest.Subject {
		s := memory.New()
		return imagetest.Subject{
			Library: s,
			Publish: func(name, content string) string {
				ref := "registry.example/" + name
				s.Publish(ref, []byte(content))
				return ref
			},
			Use: func(root image.Root) func() { return s.Use(root.Digest) },
		}
	})
}
