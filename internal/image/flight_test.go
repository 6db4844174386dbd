//go:build linux

package image_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/image"
)

// TestJoin tests that a second request joins a pull in progress, and that a cancelled request does not affect
// the others.
func TestJoin(t *testing.T) {
	layer := noise(t, 200<<10)
	h := newHub(t)
	b := build(t, spec{layers: [][]byte{layer}})
	h.put("app:latest", b)
	reached, goOn := make(chan struct{}), make(chan struct{})
	h.meddleWith(func(w http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, digest(layer)) {
			_, _ = w.Write(layer[:100<<10])
			w.(http.Flusher).Flush()
			close(reached) // a second request would panic
			<-goOn
			_, _ = w.Write(layer[100<<10:])
			return true
		}
		return false
	})
	s := open(t, image.Options{}, h)
	var wait sync.WaitGroup
	waits := make(chan struct{}, 3)
	for range 3 {
		wait.Go(func() {
			reported := false
			img, err := s.Pull(t.Context(), h.ref("app:latest"), false, func(belljar.ImageProgress) {
				if !reported {
					reported = true
					waits <- struct{}{}
				}
			})
			if err != nil || img.Digest != b.digest() {
				t.Errorf("%v %v", img.Digest, err)
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	gaveUp := make(chan error)
	go func() {
		_, err := s.Pull(ctx, h.ref("app"), false, nil)
		gaveUp <- err
	}()
	for range 3 {
		<-waits
	}
	<-reached
	cancel()
	if err := <-gaveUp; !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	close(goOn)
	wait.Wait()
	if n := h.count("/manifests/"); n != 1 {
		t.Errorf("the registry was asked %d times", n)
	}
}

// TestClose tests that Close ends pulls in progress, and may be repeated.
func TestClose(t *testing.T) {
	layer := noise(t, 200<<10)
	h := newHub(t)
	h.put("app:latest", build(t, spec{layers: [][]byte{layer}}))
	reached := make(chan struct{})
	h.meddleWith(func(w http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, digest(layer)) {
			close(reached)
			<-r.Context().Done()
			return true
		}
		return false
	})
	s := open(t, image.Options{}, h)
	ended := make(chan error)
	go func() {
		_, err := s.Pull(t.Context(), h.ref("app"), false, nil)
		ended <- err
	}()
	<-reached
	for range 2 {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	wantError(t, <-ended, belljar.CodeCanceled, "closing")
	var zero image.Store
	if err := zero.Close(); err != nil {
		t.Error(err)
	}
}
