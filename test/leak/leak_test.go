package leak

import (
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { os.Exit(Main(m)) }

// A goroutine that takes longer than goleak waits is not a leak; one that does not end is.
func TestFind(t *testing.T) {
	release, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		<-release
	}()
	mine := goleak.IgnoreTopFunction("testing.(*T).Run") // the caller of this test
	if Find(0, mine) == nil {
		t.Error("a goroutine that waits for ever goes unnoticed")
	}
	time.AfterFunc(time.Second, func() { close(release) })
	if err := Find(patience, mine); err != nil {
		t.Error(err)
	}
	<-over
}
