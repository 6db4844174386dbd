package main

import (
	"context"
	"io"

	"github.com/belljar/belljar/internal/image/debian"
)

// debianImages names what buildDebian can make.
func debianImages() []string { return debian.Names() }

// buildDebian writes the tar of an image made of Debian packages to w. log hears how far it is.
func buildDebian(ctx context.Context, b *imageBuild, w io.Writer, log func(string)) error {
	return debian.Build(ctx, debian.Options{Name: b.Recipe, Suite: b.Suite, Mirror: b.Mirror, Log: log}, w)
}
