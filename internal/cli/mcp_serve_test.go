package cli

import (
	"context"
	"io"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/local"
	"github.com/belljar/belljar/internal/notice"
)

// pulls is an image store without images. It reports when a pull starts, which lasts until the end.
type pulls struct {
	belljar.Images
	begun, ended chan struct{}
}

func (pulls) Get(context.Context, string) (belljar.Image, error) {
	return belljar.Image{}, &belljar.Error{Code: belljar.CodeNotFound}
}

func (p pulls) Pull(ctx context.Context, _ belljar.ImagePull, _ func(belljar.ImageProgress)) (belljar.Image, error) {
	close(p.begun)
	<-ctx.Done()
	close(p.ended)
	return belljar.Image{}, context.Cause(ctx)
}

// able is a node with an available runtime.
type able struct{ belljar.Node }

func (able) Me(context.Context) (belljar.Me, error) { return belljar.Me{}, nil }

func (able) Runtimes(context.Context) (belljar.Discovery, error) {
	return belljar.Discovery{Runtimes: []belljar.RuntimeInfo{{Name: "native", Available: true, Default: true}}}, nil
}

// imageless is a service without images.
type imageless struct {
	belljar.Service
	images pulls
}

func (s imageless) Images() belljar.Images { return s.images }
func (imageless) Node() belljar.Node       { return able{} }

// waiting is a machine with that service. Its client disconnects once the image is pulled.
type waiting struct {
	local.Machine
	images pulls
}

func (h waiting) Open(local.Needs) (*local.Engine, error) {
	return &local.Engine{Service: imageless{images: h.images}, Close: func() error { return nil }}, nil
}

func (h waiting) ServeModels(ctx context.Context, _ local.Models) error {
	select {
	case <-h.images.begun:
	case <-ctx.Done():
	}
	return nil
}

// The image of models is pulled while the client is served, whether or not a call needs it. The pull ends with the
// client.
func TestModelsImageIsPulled(t *testing.T) {
	p := pulls{begun: make(chan struct{}), ended: make(chan struct{})}
	c := &console{machine: waiting{images: p}, stdout: io.Discard, Writer: notice.Writer{Stderr: io.Discard}}
	if err := (&mcpCommand{}).serve(t.Context(), c, belljar.Toolset{Image: "large:1"}); err != nil {
		t.Error(err)
	}
	<-p.ended
}
