package docker

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/moby/moby/api/types/system"

	"github.com/belljar/belljar/internal/runtime"
)

// An engine takes long to import an image. A caller whose image is there already does not wait for that, nor does one whose image is
// imported, too. A caller of the same image waits, and one that cancels does not.
func TestImportKeepsNoOtherWaiting(t *testing.T) {
	root := func(digit string) runtime.Root {
		return runtime.Root{Ref: digit, Dir: t.TempDir(), Digest: "sha256:" + strings.Repeat(digit, 64)}
	}
	slow, there, other := root("a"), root("b"), root("c")
	begun, over := make(chan struct{}), make(chan struct{})
	looked := make(chan struct{}, 10) // has a value for each search for the slow image, which is not there yet
	var imports atomic.Int32
	r := answered(t, func(w http.ResponseWriter, q *http.Request) {
		switch {
		case strings.HasSuffix(q.URL.Path, "/images/create"):
			if imports.Add(1) == 1 {
				close(begun)
				<-over
			}
			w.WriteHeader(http.StatusInternalServerError)
		case strings.HasSuffix(q.URL.Path, "/"+imported(there.Digest)+"/json"):
			json.NewEncoder(w).Encode(map[string]any{"Id": "sha256:1", "Config": map[string]any{"Labels": map[string]string{labelImage: there.Digest}}})
		default:
			w.WriteHeader(http.StatusNotFound)
			if strings.HasSuffix(q.URL.Path, "/"+imported(slow.Digest)+"/json") {
				looked <- struct{}{}
			}
		}
	})
	f := &facts{Info: system.Info{Architecture: "x86_64"}}
	ask := func(ctx context.Context, root runtime.Root) <-chan error {
		done := make(chan error, 1)
		go func() {
			_, err := r.rootOf(ctx, root, f)
			done <- err
		}()
		return done
	}
	within := func(done <-chan error) error {
		select {
		case err := <-done:
			return err
		case <-time.After(time.Minute):
			return errors.New("it waits")
		}
	}
	first := ask(t.Context(), slow)
	<-begun
	if err := within(ask(t.Context(), there)); err != nil {
		t.Errorf("an image that the engine has: %v", err)
	}
	if err := within(ask(t.Context(), other)); err == nil || err.Error() == "it waits" || imports.Load() != 2 {
		t.Errorf("another image, which the engine refuses: %v, %d imports", err, imports.Load())
	}
	for len(looked) > 0 {
		<-looked // by the first caller
	}
	ctx, leave := context.WithCancel(t.Context())
	waiting := ask(ctx, slow)
	<-looked
	same := ask(t.Context(), slow)
	<-looked
	leave()
	if err := within(waiting); err == nil || err.Error() == "it waits" {
		t.Errorf("a caller that has left: %v", err)
	}
	select {
	case err := <-same:
		t.Errorf("a caller of the same image does not wait: %v", err)
	default:
	}
	if got := imports.Load(); got != 2 {
		t.Errorf("%d imports: an image is imported twice", got)
	}
	close(over)
	if err := within(first); err == nil {
		t.Error("the engine has failed, and the image is there")
	}
}
